// Bytes of a GPT in mixed precision: what follows from its layers against the formulas of Korthikanti et al. (Reducing
// Activation Recomputation in Large Transformer Models, MLSys 2023), of Qi et al. (Zero Bubble Pipeline Parallelism,
// ICLR 2024, Table 1) and of Narayanan et al. (SC 2021, equation 2). b samples, s tokens, hidden size h, a heads.
//
// Blocks have every term of the formulas, and one that these leave out: the mean and the reciprocal deviation that a
// norm keeps of every token, in fp32.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "harness/model/tensor_split.h"
#include "harness/sim/stage_memory.h"
#include "workloads/models/models.h"

namespace sluice {
namespace {

struct GptSizes {
  const char* name;
  std::int64_t layers, h, a, s, b;
};
// Qi et al., Table 3, and rows of Narayanan et al., Table 1.
constexpr GptSizes kGpts[] = {{"1.5B", 22, 2304, 24, 1024, 6},    {"6.2B", 30, 4096, 32, 1024, 3},
                              {"14.6B", 46, 5120, 40, 1024, 1},   {"28.3B", 62, 6144, 48, 1024, 1},
                              {"1.7B", 24, 2304, 24, 2048, 16},   {"39.1B", 48, 8192, 64, 2048, 4},
                              {"145.6B", 80, 12288, 96, 2048, 2}, {"1008B", 128, 25600, 160, 2048, 1}};
constexpr std::int64_t kWords = 51'200;

const Storage kKept(Precision::mixed_fp32_gradients, AttentionScores::kept_with_dropout);

ModelGraph three_blocks(const GptSizes& g, double dropout = 0.1) {
  return gpt("gpt", 3, g.h, g.a, g.s, kWords, dropout);
}

// The layers of the middle one of three blocks.
std::vector<int> middle_block(const ModelGraph& model) {
  std::vector<int> layers;
  for (std::size_t l = 0; l < model.layers.size(); ++l)
    if (model.layers[l].block == 2) layers.push_back(static_cast<int>(l));
  return layers;
}

StageStash block_stash(const GptSizes& g, const Storage& storage, double dropout = 0.1) {
  const ModelGraph model = three_blocks(g, dropout);
  return stage_stash(model, model.shapes(), middle_block(model), g.b, storage);
}

// Two norms, two numbers of four bytes for every token.
std::int64_t statistics(const GptSizes& g) { return g.b * g.s * 2 * 2 * 4; }

TEST(TransformerBytes, ABlockHasTheTermsOfTheFormula) {
  const GptSizes g{"small", 3, 64, 4, 32, 1};
  const ModelGraph model = three_blocks(g);
  const std::vector<Shape> shapes = model.shapes();
  // Bytes for every token: h for every one of these, and 5 s a of attention's scores.
  const std::map<std::string, std::int64_t> terms = {
      {"ln1_1", 2 * g.h},                                      // its input, and
      {"attention_1", (2 + 4 + 2 + 2) * g.h + 5 * g.s * g.a},  // its input, q and k, v, the heads' output, scores
      {"dropout1_1", g.h},                                     // a mask
      {"add1_1", 0},
      {"ln2_1", 2 * g.h},   // its input
      {"up_1", 2 * g.h},    // its input
      {"gelu_1", 8 * g.h},  // its input
      {"down_1", 8 * g.h},  // its input
      {"dropout2_1", g.h},  // a mask
      {"add2_1", 0}};
  std::int64_t sum = 0;
  for (const int l : middle_block(model)) {
    const LayerSpec& layer = model.layers[l];
    std::vector<Shape> inputs;
    for (const int i : layer.inputs) inputs.push_back(shapes[i]);
    const StashSpec keeps = stash(layer, inputs, kKept);
    const bool norm = std::holds_alternative<LayerNorm>(layer.kind);
    std::int64_t bytes = keeps.extra.value - (norm ? statistics(g) / 2 : 0);
    if (keeps.keeps_input) bytes += 2 * elements(inputs[0]);
    EXPECT_FALSE(keeps.keeps_output) << layer.name;
    EXPECT_EQ(bytes, g.s * terms.at(layer.name)) << layer.name;
    sum += bytes;
  }
  EXPECT_EQ(sum, g.s * (34 * g.h + 5 * g.a * g.s));
  EXPECT_EQ(block_stash(g, kKept).forward.value, sum + statistics(g));
}

TEST(TransformerBytes, OfPublishedSizesAreTheFormulas) {
  for (const GptSizes& g : kGpts) {
    const std::int64_t tokens = g.b * g.s;
    const StageStash kept = block_stash(g, kKept);
    EXPECT_EQ(kept.forward.value, tokens * (34 * g.h + 5 * g.a * g.s) + statistics(g)) << g.name;
    // Until the weight gradient: 32 s b h, and the sums for two norms' weights and biases.
    EXPECT_EQ(kept.weight.value, tokens * 32 * g.h + 2LL * 2 * g.h * 2) << g.name;
  }
}

TEST(TransformerBytes, WithoutTheScoresOrWithoutDropoutTheirTermsGo) {
  const GptSizes& g = kGpts[0];
  const std::int64_t tokens = g.b * g.s, block = tokens * 34 * g.h + statistics(g);
  const auto bytes = [&](AttentionScores scores, double dropout) {
    return block_stash(g, {Precision::mixed, scores}, dropout).forward.value;
  };
  EXPECT_EQ(bytes(AttentionScores::fused, 0.1), block + tokens * 4 * g.a);  // a log-sum-exp of every head and token
  EXPECT_EQ(bytes(AttentionScores::kept, 0.1), block + tokens * 2 * g.a * g.s);
  EXPECT_EQ(bytes(AttentionScores::kept, 0), block - tokens * 2 * g.h + tokens * 2 * g.a * g.s);  // two masks less
}

TEST(TransformerBytes, AMemberOfATensorGroupHoldsItsPartOfTheDividedTerms) {
  // s b h (10 + 24 / t + 5 a s / (h t)): Korthikanti et al., section 4.2.
  for (const int t : {2, 4, 8}) {
    const GptSizes& g = kGpts[5];
    const ModelGraph member = split_tensors(three_blocks(g), t).member;
    const StageStash kept = stage_stash(member, member.shapes(), middle_block(member), g.b, kKept);
    EXPECT_EQ(kept.forward.value, g.b * g.s * (10 * g.h + 24 * g.h / t + 5 * g.a * g.s / t) + statistics(g)) << t;
  }
}

TEST(TransformerBytes, TheEndsOfTheModelKeepWhatTheFormulaAddsForThem) {
  // Korthikanti et al., section 4.3: the embedding's dropout mask, s b h; at the end 2 s b h each for the last norm and
  // the head, and fp32 logits, 4 s b v.
  const GptSizes& g = kGpts[1];
  const ModelGraph model = three_blocks(g);
  const std::int64_t tokens = g.b * g.s;
  const auto stash_of = [&](const std::vector<std::string>& names) {
    std::vector<int> layers;
    for (std::size_t l = 0; l < model.layers.size(); ++l)
      if (std::ranges::find(names, model.layers[l].name) != names.end()) layers.push_back(static_cast<int>(l));
    return stage_stash(model, model.shapes(), layers, g.b, kKept).forward.value;
  };
  EXPECT_EQ(stash_of({"embedding", "positions", "dropout"}), tokens * g.h);
  EXPECT_EQ(stash_of({"final_norm", "head", "loss"}), tokens * (4 * g.h + 4 * kWords) + statistics(g) / 2);
}

TEST(TransformerBytes, ParametersAreTheFormulaWithAHeadOfItsOwnAndALastNorm) {
  // Equation 2 of SC 2021: 12 l h^2 (1 + 13 / (12 h) + (V + s) / (12 l h)). It shares the head's weights with the
  // embedding, which a pipeline holds on its first and on its last stage; here both stages have one of their own. And
  // it leaves out the last norm, 2 h.
  for (const GptSizes& g : kGpts) {
    const ModelGraph model = gpt("gpt", static_cast<int>(g.layers), g.h, g.a, g.s, kWords);
    const std::int64_t formula = g.layers * (12 * g.h * g.h + 13 * g.h) + (kWords + g.s) * g.h;
    EXPECT_EQ(parameter_count(model), formula + kWords * g.h + 2 * g.h) << g.name;
  }
}

// A stage of `blocks` blocks between two others, trained with AdamW.
StageMemory stage_of_blocks(const GptSizes& g, int blocks, const Storage& storage) {
  const ModelGraph model = gpt("gpt", blocks + 2, g.h, g.a, g.s, kWords, 0.1);
  Plan plan{.stages = {}, .micro_batch = g.b};
  for (int stage = 0; stage < 3; ++stage) plan.stages.push_back({.layers = {}, .devices = {DeviceId(stage)}});
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const int block = model.layers[l].block;
    plan.stages[block < 2 ? 0 : block < 2 + blocks ? 1 : 2].layers.push_back(static_cast<int>(l));
  }
  const OptimizerSpec adamw{.kind = OptimizerKind::adamw};
  return stage_memory(model, plan, g.b, adamw, WeightRule{}, storage)[1];
}

TEST(TransformerBytes, AMiddleStageHoldsWhatThePublishedFiguresAreMadeOf) {
  // Qi et al., Table 4: p activations of a middle stage and 18 bytes a parameter are 30.8, 41.2, 33.2 GiB,
  // to a tenth.
  const struct {
    GptSizes sizes;
    int blocks, p;
    double gib;
  } published[] = {{kGpts[0], 3, 8, 30.8}, {kGpts[1], 4, 8, 41.2}, {kGpts[2], 3, 16, 33.2}};
  for (const auto& row : published) {
    const GptSizes& g = row.sizes;
    const StageMemory stage = stage_of_blocks(g, row.blocks, kKept);
    const std::int64_t parameters = row.blocks * (12 * g.h * g.h + 13 * g.h);
    EXPECT_EQ(stage.weights, Bytes(2 * parameters));
    EXPECT_EQ(stage.gradients, Bytes(4 * parameters));
    EXPECT_EQ(stage.optimizer, Bytes(12 * parameters));
    EXPECT_EQ(stage.input, Bytes(2 * g.b * g.s * g.h));  // what full recomputation leaves
    const Bytes held = stage.weights + stage.gradients + stage.optimizer + row.p * stage.stash;
    EXPECT_NEAR(static_cast<double>(held.value) / (1 << 30), row.gib, 0.1) << g.name;
  }
}

}  // namespace
}  // namespace sluice
