// Systems that divide words: what is rejected and how, and what the virtual clock is told of the slices.
#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/case/make_program.h"
#include "harness/case/predict_memory.h"
#include "harness/case/predict_update.h"
#include "harness/case/prepare.h"
#include "harness/case/settings.h"
#include "harness/case/tensor_costs.h"
#include "harness/case/test_profiles.h"

namespace sluice {
namespace {

Prepared prepared(const Json& more = Json::object()) {
  Json entry = {{"system", "vocabulary_parallelism"},
                {"workload", "gpt_1.3b"},
                {"clock", "virtual"},
                {"cluster", "flat:4"},
                {"ranks", 4},
                {"microbatches", 16},
                {"batch", 16}};
  entry.update(more);
  return prepare(resolve({entry, in_file("s.json", "/grid/0")}), test_profiles());
}

// gpt_1.3b: a quarter of the table's rows and of the head's classes, in a stage each, on every rank.
TEST(WordSlicesCase, EveryRankHasASliceOfEmbeddingAndHead) {
  const Prepared p = prepared();
  ASSERT_EQ(p.pipeline.stages.size(), 12u);
  const ModelGraph& whole = p.workload->model;
  const int head = static_cast<int>(whole.layers.size()) - 2;
  const std::int64_t words = std::get<Linear>(whole.layers[head].kind).out;
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(p.pipeline.stages[r].devices, std::vector{DeviceId(r)});
    EXPECT_EQ(p.pipeline.stages[8 + r].devices, std::vector{DeviceId(r)});
    const std::vector<int>& slice = p.pipeline.stages[8 + r].layers;
    ASSERT_EQ(slice.size(), 2u);
    EXPECT_EQ(std::get<Linear>(p.words->all.layers[slice[0]].kind).out, words / 4);
  }
  const Program program = program_of_updates(p);
  EXPECT_EQ(program.tensor, 4);
}

// By formula: those of a linear layer with a quarter of the classes, and in the loss's forward one sum over the ranks
// of 5 numbers a position.
TEST(WordSlicesCase, CostsAreAShareOfTheHeadAndTheSum) {
  const Prepared p = prepared({{"costs", "analytic"}});
  const ModelGraph& whole = p.workload->model;
  const int head = static_cast<int>(whole.layers.size()) - 2;
  const CostGraph by_formula = analytic_costs(p.words->member, p.micro_batch, p.cluster.devices.front(), p.storage);
  const Linear& linear = std::get<Linear>(whole.layers[head].kind);
  EXPECT_EQ(std::get<Linear>(p.words->member.layers[head].kind).out, linear.out / 4);
  const std::int64_t positions = elements(whole.shapes()[head]) / linear.out;
  for (int k = 0; k < 4; ++k) {
    const LayerCost& slice = p.costs.layers[p.words->first_parts[head] + k];
    EXPECT_DOUBLE_EQ(slice.forward.value, by_formula.layers[head].forward.value);
    EXPECT_DOUBLE_EQ(slice.input_gradient.value, by_formula.layers[head].input_gradient.value);
    const LayerCost& loss = p.costs.layers[p.words->first_parts[head + 1] + k];
    EXPECT_DOUBLE_EQ(loss.forward.value, (by_formula.layers[head + 1].forward +
                                          sum_seconds(p.cluster, 4, Bytes(4 * 5 * positions * p.micro_batch)))
                                             .value);
  }
}

// Rank 0 of 1F1B has the embedding, the last one the head.
TEST(WordSlicesCase, BalanceTheWeightsOfTheRanks) {
  const auto weights = [](const Prepared& p) {
    std::vector<double> bytes;
    const Program program = program_of_updates(p);
    for (const RankMemory& rank : memory(program, stage_memory(p, OptimizerSpec{}, program.rule)))
      bytes.push_back(static_cast<double>(rank.peak.weights.value));
    return *std::ranges::max_element(bytes) / *std::ranges::min_element(bytes);
  };
  EXPECT_GT(weights(prepared({{"system", "one_f_one_b"}})), 1.2);
  EXPECT_LT(weights(prepared()), 1.2);
}

TEST(WordSlicesCase, NameWhatCannotGoWithThem) {
  const auto rejected = [](const Json& more) { return error_of([&] { prepared(more); }); };
  EXPECT_EQ(
      rejected({{"tensor", 2}, {"cluster", "flat:8"}}),
      "tensor: vocabulary_parallelism divides the words among all ranks, which are then no tensor-parallel groups; "
      "leave tensor out");
  EXPECT_EQ(
      rejected({{"data_parallel", 2}}),
      "data_parallel: vocabulary_parallelism divides the words among all ranks, which are then one pipeline; leave "
      "data_parallel out");
  EXPECT_EQ(rejected({{"task", "inference"}}),
            "task: vocabulary_parallelism divides the words among all ranks, and inference runs with whole layers; use "
            "another system");
  EXPECT_EQ(rejected({{"optimizer", {{"kind", "muon"}}}}),
            "optimizer.kind: vocabulary_parallelism divides the words among all ranks, and muon needs whole matrices; "
            "use an optimizer of single elements");
}

}  // namespace
}  // namespace sluice
