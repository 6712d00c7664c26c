// A stage that runs a sequence chunk by chunk makes the gradients that it makes of the whole sequence, to rounding.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "harness/exec/torch/stage/stage_module.h"

namespace sluice {
namespace {

constexpr std::int64_t kLength = 23, kWidth = 12, kWords = 17, kSamples = 2;

// Two blocks of attention, one of them with rotary positions, dropout, and a prediction at every position.
ModelGraph language_model() {
  return {.name = "language model",
          .inputs = {{.shape = {kLength}, .is_token_ids = true}},
          .layers = {{.name = "embedding", .kind = Embedding{kWords, kWidth}, .inputs = {-1}},
                     {.name = "positions", .kind = PositionEmbedding{kLength, kWidth}, .inputs = {0}},
                     {.name = "norm", .kind = LayerNorm{kWidth}, .inputs = {1}},
                     {.name = "first", .kind = Attention{kWidth, 3, true}, .inputs = {2}},
                     {.name = "dropout", .kind = Dropout{0.3}, .inputs = {3}},
                     {.name = "sum", .kind = Add{}, .inputs = {1, 4}},
                     {.name = "second", .kind = Attention{kWidth, 2, true, 10000}, .inputs = {5}},
                     {.name = "gelu", .kind = Activation{Activation::Kind::gelu}, .inputs = {6}},
                     {.name = "head", .kind = Linear{kWidth, kWords}, .inputs = {7}},
                     {.name = "loss", .kind = CrossEntropyLoss{}, .inputs = {8}}}};
}

ModelGraph regression() {
  return {.name = "regression",
          .inputs = {{.shape = {kLength, kWidth}}},
          .layers = {{.name = "attention", .kind = Attention{kWidth, 3, true}, .inputs = {-1}},
                     {.name = "loss", .kind = MseLoss{}, .inputs = {0}}}};
}

class SequenceChunksStageTest : public testing::TestWithParam<bool> {
 protected:
  SequenceChunksStageTest()
      : model_(GetParam() ? language_model() : regression()),
        module_(model_, layers(), interfaces(model_, std::vector<int>(model_.layers.size(), 0), 1)[0], kDouble) {
    at::set_num_threads(1);
    at::Generator random = at::detail::createCPUGenerator(3);
    for (const ParameterSpec& p : module_.parameters()) {
      weights_.push_back(at::randn(p.shape, random, at::kDouble).mul_(0.4));
      zeros_.push_back(at::zeros(p.shape, kDouble));
    }
    if (GetParam()) {
      input_ = at::randint(kWords, {kSamples, kLength}, random, at::kLong);
      target_ = at::randint(kWords, {kSamples, kLength}, random, at::kLong);
      target_[0].narrow(0, 20, 3).fill_(-100);  // padding, all of it in the last chunks
    } else {
      input_ = at::randn({kSamples, kLength, kWidth}, random, at::kDouble);
      target_ = at::randn({kSamples, kLength, kWidth}, random, at::kDouble);
    }
  }

  std::vector<int> layers() const {
    std::vector<int> all(model_.layers.size());
    for (std::size_t l = 0; l < all.size(); ++l) all[l] = static_cast<int>(l);
    return all;
  }

  struct Result {
    double loss = 0;
    std::vector<at::Tensor> gradients;
  };
  // Forwards in order, backwards the other way; W of every chunk at once where `late`, else with its I.
  Result run(const std::vector<std::int64_t>& cut, bool late) {
    const std::size_t chunks = cut.size() - 1;
    std::vector<StageStashTensors> stashes(chunks);
    Result result;
    for (const at::Tensor& zero : zeros_) result.gradients.push_back(zero.clone());
    for (std::size_t c = 0; c < chunks; ++c) {
      const std::int64_t length = cut[c + 1] - cut[c];
      ForwardMode mode{.seed = 5, .sequence = 9};
      if (chunks > 1)
        mode.chunk = {.count = static_cast<int>(chunks), .first = cut[c], .length = length, .whole = kLength};
      mode.whole_target = target_;
      if (c > 0) stashes[c].earlier = &stashes[c - 1];
      const at::Tensor in[] = {input_.narrow(1, cut[c], length)};
      at::Tensor loss;
      module_.forward(in, weights_, target_.narrow(1, cut[c], length), mode, &stashes[c], &loss);
      result.loss += loss.item<double>() / static_cast<double>(chunks);
    }
    for (std::size_t c = chunks; c-- > 0;) {
      module_.input_gradient({}, 1.0 / static_cast<double>(chunks), weights_, stashes[c]);
      StageStashTensors* one[] = {&stashes[c]};
      if (!late) module_.weight_gradient(one, result.gradients);
    }
    if (late) {
      std::vector<StageStashTensors*> all;
      for (StageStashTensors& stash : stashes) all.push_back(&stash);
      module_.weight_gradient(all, result.gradients);
    }
    return result;
  }

  static constexpr auto kDouble = at::kDouble;
  ModelGraph model_;
  StageModule module_;
  std::vector<at::Tensor> weights_, zeros_;
  at::Tensor input_, target_;
};

TEST_P(SequenceChunksStageTest, ChunksMakeTheGradientsOfTheWholeSequence) {
  const c10::InferenceMode no_autograd;
  const Result whole = run({0, kLength}, false);
  const std::vector<std::vector<std::int64_t>> cuts = {
      {0, 12, 23}, {0, 1, 2, 23}, {0, 9, 15, 20, 23}, {0, 22, 23}, {0, 5, 10, 15, 20, 21, 22, 23}};
  for (const auto& cut : cuts)
    for (const bool late : {false, true}) {
      SCOPED_TRACE(testing::PrintToString(cut) + (late ? ", W late" : ""));
      const Result ours = run(cut, late);
      EXPECT_NEAR(ours.loss, whole.loss, 1e-13);
      for (std::size_t p = 0; p < ours.gradients.size(); ++p) {
        const double scale = whole.gradients[p].abs().max().item<double>();
        EXPECT_LE((ours.gradients[p] - whole.gradients[p]).abs().max().item<double>(), 1e-13 * (1 + scale))
            << module_.parameters()[p].name << " " << p;
        EXPECT_GT(scale, 0);
      }
    }
}

// Backwards of a chunk leave nothing for others when its own is done.
TEST_P(SequenceChunksStageTest, NothingIsKeptInTheEnd) {
  const c10::InferenceMode no_autograd;
  std::vector<StageStashTensors> stashes(2);
  for (std::size_t c = 0; c < 2; ++c) {
    const std::int64_t first = c == 0 ? 0 : 8, length = c == 0 ? 8 : kLength - 8;
    ForwardMode mode{.chunk = {.count = 2, .first = first, .length = length, .whole = kLength},
                     .whole_target = target_};
    if (c > 0) stashes[c].earlier = &stashes[0];
    const at::Tensor in[] = {input_.narrow(1, first, length)};
    at::Tensor loss;
    module_.forward(in, weights_, target_.narrow(1, first, length), mode, &stashes[c], &loss);
  }
  const std::int64_t before = StageModule::stash_bytes(stashes[0]);
  module_.input_gradient({}, 0.5, weights_, stashes[1]);
  std::int64_t attention_layers = 0;
  for (const LayerSpec& layer : model_.layers) attention_layers += std::holds_alternative<Attention>(layer.kind);
  // Gradients of keys and values of chunk 0: eight positions of each sample, in every attention layer.
  EXPECT_EQ(StageModule::stash_bytes(stashes[0]) - before, attention_layers * 2 * kWidth * 8 * kSamples * 8);
  module_.input_gradient({}, 0.5, weights_, stashes[0]);
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& zero : zeros_) gradients.push_back(zero.clone());
  for (StageStashTensors& stash : stashes) {
    StageStashTensors* one[] = {&stash};
    module_.weight_gradient(one, gradients);
    EXPECT_EQ(StageModule::stash_bytes(stash), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SequenceChunksStageTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "language_model" : "regression"; });

}  // namespace
}  // namespace sluice
