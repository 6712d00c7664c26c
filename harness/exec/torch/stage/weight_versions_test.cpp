// For every kind of layer with weights: a pass reads the version that the rule says, not the one that happens to be in
// storage. PipeDream with a stash and without one are run on the real executor with the kind of layer on the middle of
// three stages, and replayed by hand: version after version kept, batch j (from 1) forward on version max(0, j - K + k)
// of stage k, input gradient on the same or on version j - 1. The stash's gradients are autograd's besides, at those
// mixed versions.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "harness/exec/session.h"
#include "harness/exec/torch/layers/autograd_reference.h"
#include "harness/exec/torch/stage/stage_module.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/program/program.h"

namespace sluice {
namespace {

constexpr int kStages = 3, kBatches = 8;
constexpr std::int64_t kSamples = 4;
constexpr double kRate = 0.2;

struct RuleKind {
  std::string name;
  ModelGraph model;
  std::vector<int> stage_of;
};
void PrintTo(const RuleKind& kind, std::ostream* out) { *out << kind.name; }

// `before` and `after` train as well, so that a wrong input gradient shows in them.
RuleKind of(const std::string& name, const Shape& input, const std::vector<LayerSpec>& before,
            const std::vector<LayerSpec>& middle, const std::vector<LayerSpec>& after) {
  RuleKind kind{name, {.name = name, .inputs = {{.shape = input}}, .layers = {}}, {}};
  int stage = 0;
  for (const auto* layers : {&before, &middle, &after}) {
    for (LayerSpec layer : *layers) {
      const int last = static_cast<int>(kind.model.layers.size()) - 1;
      if (layer.inputs.empty()) layer.inputs = {last};
      kind.model.layers.push_back(layer);
      kind.stage_of.push_back(stage);
    }
    ++stage;
  }
  kind.model.layers.push_back({"loss", CrossEntropyLoss{}, {static_cast<int>(kind.model.layers.size()) - 1}});
  kind.stage_of.push_back(2);
  return kind;
}

std::vector<RuleKind> kinds() {
  const LayerSpec tanh{"tanh", Activation{Activation::Kind::tanh}, {}};
  const LayerSpec flat{"flat", Flatten{}, {}};
  const LayerSpec first{"first", Linear{6, 6}, {-1}};
  const LayerSpec convolution{"first", Conv2d{1, 2, 3, 1, 1}, {-1}};
  std::vector<RuleKind> all{
      of("Linear", {6}, {first}, {{"it", Linear{6, 6}, {}}, tanh}, {{"head", Linear{6, 3}, {}}}),
      of("Conv2d", {1, 5, 5}, {convolution}, {{"it", Conv2d{2, 3, 3}, {}}, tanh}, {flat, {"head", Linear{27, 3}, {}}}),
      of("BatchNorm", {1, 5, 5}, {convolution}, {{"it", BatchNorm{2}, {}}}, {flat, {"head", Linear{50, 3}, {}}}),
      of("LayerNorm", {6}, {first}, {{"it", LayerNorm{6}, {}}}, {{"head", Linear{6, 3}, {}}}),
      of("Lstm", {4, 6}, {first}, {{"it", Lstm{6, 5}, {}}}, {flat, {"head", Linear{20, 3}, {}}}),
      of("LstmCell", {6}, {first, {"state", Linear{6, 10}, {-1}}}, {{"it", LstmCell{6, 5}, {0, 1}}},
         {{"head", Linear{10, 3}, {}}}),
      of("Attention", {4, 6}, {first}, {{"it", Attention{6, 2}, {}}}, {flat, {"head", Linear{24, 3}, {}}}),
      of("CrossAttention", {4, 6}, {first, {"memory", Linear{6, 6}, {-1}}}, {{"it", CrossAttention{6, 6, 2}, {0, 1}}},
         {flat, {"head", Linear{24, 3}, {}}}),
      of("PositionEmbedding", {4, 6}, {first}, {{"it", PositionEmbedding{4, 6}, {}}, {"more", Linear{6, 6}, {}}, tanh},
         {flat, {"head", Linear{24, 3}, {}}}),
      of("PatchEmbedding", {1, 4, 4}, {{"first", Conv2d{1, 2, 3, 1, 1}, {-1}}},
         {{"it", PatchEmbedding{2, 2, 6}, {}}, tanh}, {flat, {"head", Linear{24, 3}, {}}}),
      of("ClassToken", {4, 6}, {first}, {{"it", ClassToken{6}, {}}, {"more", Linear{6, 6}, {}}, tanh},
         {flat, {"head", Linear{30, 3}, {}}})};
  // Token ids take no gradient: the layer that reads them is first, and only forwards matter.
  RuleKind embedding{"Embedding",
                     {.name = "Embedding",
                      .inputs = {{.shape = {4}, .is_token_ids = true}},
                      .layers = {{"it", Embedding{12, 6}, {-1}},
                                 {"middle", Linear{6, 6}, {0}},
                                 {"tanh", Activation{Activation::Kind::tanh}, {1}},
                                 {"flat", Flatten{}, {2}},
                                 {"head", Linear{24, 3}, {3}},
                                 {"loss", CrossEntropyLoss{}, {4}}}},
                     {0, 1, 1, 2, 2, 2}};
  all.push_back(embedding);
  return all;
}

struct Data {
  at::Tensor input, target;  // of all batches
};

class WeightVersions : public testing::TestWithParam<RuleKind> {
 protected:
  void SetUp() override {
    torch::manual_seed(5);
    const ModelInput& input = model_.inputs.front();
    Shape shape{kBatches * kSamples};
    shape.insert(shape.end(), input.shape.begin(), input.shape.end());
    data_.input = input.is_token_ids ? torch::randint(1, 12, shape, at::kLong) : torch::randn(shape, at::kDouble);
    data_.target = torch::randint(3, {kBatches * kSamples}, at::kLong);
    weights_ = initial_weights(model_, 1, at::TensorOptions().dtype(at::kDouble));
  }

  // Per layer: all its weights after the run.
  std::vector<std::vector<double>> run(const WeightRule& rule) const {
    SessionSpec spec{.model = model_};
    spec.plan.micro_batch = kSamples;
    for (int k = 0; k < kStages; ++k) {
      PlanStage& stage = spec.plan.stages.emplace_back();
      stage.devices = {DeviceId(k)};
      for (std::size_t l = 0; l < stage_of_.size(); ++l)
        if (stage_of_[l] == k) stage.layers.push_back(static_cast<int>(l));
    }
    spec.optimizer.learning_rate = kRate;
    spec.micro_batch = kSamples;
    spec.double_precision = true;
    spec.seed = 1;
    const auto rows = [](const at::Tensor& all, std::span<const std::int64_t> indices, auto* out) {
      using Element = std::remove_pointer_t<decltype(out)>;
      for (const std::int64_t i : indices) {
        const at::Tensor row = all[i].contiguous();
        out = std::copy_n(row.const_data_ptr<Element>(), row.numel(), out);
      }
    };
    DataFeed feed;
    feed.train_samples = kBatches * kSamples;
    feed.features_double = [&](bool, std::span<const std::int64_t> i, double* out) { rows(data_.input, i, out); };
    feed.tokens = [&](bool, std::size_t, std::span<const std::int64_t> i, std::int64_t* out) {
      rows(data_.input, i, out);
    };
    feed.classes = [&](bool, std::span<const std::int64_t> i, std::int64_t* out) {
      for (const std::int64_t sample : i) *out++ = data_.target[sample].item<std::int64_t>();
    };
    if (!model_.inputs.front().is_token_ids) feed.tokens = nullptr;
    spec.feed = feed;
    const auto session = make_session(spec);
    Schedule schedule{.ranks = std::vector<std::vector<Op>>(kStages), .microbatches = kBatches};
    for (int k = 0; k < kStages; ++k) {
      auto& ops = schedule.ranks[k];
      for (int j = 0; j < kStages - k; ++j) ops.push_back(forward_op(k, j));
      for (int j = 0; j < kBatches; ++j) {
        ops.push_back(backward_op(k, j));
        if (j + kStages - k < kBatches) ops.push_back(forward_op(k, j + kStages - k));
      }
    }
    RunRequest request;
    for (std::int64_t i = 0; i < kBatches * kSamples; ++i) request.order.push_back(i);
    session->run(lower(schedule, chain(kStages), one_stage_per_rank(kStages), rule), request);
    std::vector<std::vector<double>> result;
    for (int l = 0; l < static_cast<int>(model_.layers.size()); ++l) result.push_back(session->weights(l));
    return result;
  }

  // The same by hand.
  std::vector<std::vector<double>> replay(bool stash) {
    const auto between = interfaces(model_, stage_of_, kStages);
    std::vector<StageModule> stages;
    std::vector<std::vector<int>> layers(kStages);
    for (std::size_t l = 0; l < stage_of_.size(); ++l) layers[stage_of_[l]].push_back(static_cast<int>(l));
    for (std::size_t k = 0; k < kStages; ++k)
      stages.emplace_back(model_, layers[k], between[k], at::TensorOptions().dtype(at::kDouble));
    // [stage][version][parameter]
    std::vector<std::vector<Tensors>> versions(kStages);
    for (std::size_t k = 0; k < kStages; ++k) {
      Tensors& initial = versions[k].emplace_back();
      for (const int l : layers[k])
        for (const at::Tensor& w : weights_[l]) initial.push_back(w.clone());
    }
    for (int j = 1; j <= kBatches; ++j) {
      const at::Tensor x = data_.input.narrow(0, (j - 1) * kSamples, kSamples);
      const at::Tensor target = data_.target.narrow(0, (j - 1) * kSamples, kSamples);
      const auto read = [&](std::size_t k) -> const Tensors& {
        return versions[k][std::max(0, j - kStages + static_cast<int>(k))];
      };
      std::map<int, at::Tensor> values{{-1, x}}, gradients;
      std::vector<StageStashTensors> kept(kStages);
      for (std::size_t k = 0; k < kStages; ++k) {
        Tensors received;
        for (const int producer : between[k].receives) received.push_back(values.at(producer));
        at::Tensor loss;
        const Tensors sent = stages[k].forward(received, read(k), target, {.training = true}, &kept[k], &loss);
        for (std::size_t i = 0; i < sent.size(); ++i) values[between[k].sends[i]] = sent[i].clone();
      }
      const Tensors expected = stash ? autograd(read, layers, x, target) : Tensors{};
      std::size_t next = expected.size();
      for (std::size_t k = kStages; k-- > 0;) {
        Tensors sent;
        for (const int layer : between[k].sends) sent.push_back(gradients.at(layer).clone());
        const Tensors& backward = stash ? read(k) : versions[k].back();
        const Tensors received = stages[k].input_gradient(sent, 1, backward, kept[k]);
        for (std::size_t i = 0; i < received.size(); ++i) {
          if (!received[i].defined()) continue;
          at::Tensor& sum = gradients[between[k].receives[i]];
          sum = sum.defined() ? sum + received[i] : received[i].clone();
        }
        Tensors g;
        for (const at::Tensor& w : versions[k].back()) g.push_back(at::zeros_like(w));
        StageStashTensors* one[] = {&kept[k]};
        stages[k].weight_gradient(one, g);
        Tensors& made = versions[k].emplace_back();
        const Tensors& newest = versions[k][versions[k].size() - 2];
        for (std::size_t i = 0; i < g.size(); ++i) made.push_back(newest[i] - kRate * g[i]);
        if (stash) {
          next -= g.size();
          for (std::size_t i = 0; i < g.size(); ++i)
            EXPECT_TRUE(at::allclose(g[i], expected[next + i], 0, 1e-10))
                << "batch " << j << ", stage " << k << ", parameter " << i;
        }
      }
    }
    std::vector<std::vector<double>> result(model_.layers.size());
    for (std::size_t k = 0; k < kStages; ++k) {
      std::size_t next = 0;
      for (const int l : layers[k])
        for (std::size_t p = 0; p < weights_[l].size(); ++p) {
          const at::Tensor w = versions[k].back()[next++].contiguous();
          auto& flat = result[l];
          flat.insert(flat.end(), w.const_data_ptr<double>(), w.const_data_ptr<double>() + w.numel());
        }
    }
    return result;
  }

  const ModelGraph& model_ = GetParam().model;
  const std::vector<int>& stage_of_ = GetParam().stage_of;
  Data data_;
  std::vector<std::vector<at::Tensor>> weights_;

 private:
  // Of all parameters, stage after stage, with each stage at the version it read.
  template <class Read>
  Tensors autograd(Read read, const std::vector<std::vector<int>>& layers, const at::Tensor& x,
                   const at::Tensor& target) const {
    std::vector<Tensors> by_layer(model_.layers.size());
    for (std::size_t k = 0; k < kStages; ++k) {
      std::size_t next = 0;
      for (const int l : layers[k])
        for (std::size_t p = 0; p < weights_[l].size(); ++p)
          by_layer[l].push_back(read(k)[next++].detach().clone().set_requires_grad(true));
    }
    reference_model(model_, {x}, by_layer, target).backward();
    Tensors result;
    for (const auto& stage : layers)
      for (const int l : stage)
        for (const at::Tensor& w : by_layer[l]) result.push_back(w.grad());
    return result;
  }
};

void expect_equal(const std::vector<std::vector<double>>& ours, const std::vector<std::vector<double>>& expected,
                  const ModelGraph& model) {
  for (std::size_t l = 0; l < expected.size(); ++l) {
    ASSERT_EQ(ours[l].size(), expected[l].size());
    for (std::size_t i = 0; i < expected[l].size(); ++i)
      ASSERT_NEAR(ours[l][i], expected[l][i], 1e-12) << model.layers[l].name;
  }
}

TEST_P(WeightVersions, AreThoseOfTheRuleForwardAndBackward) {
  const WeightRule stash{.update = WeightRule::Update::every_backward};
  WeightRule naive = stash;
  naive.backward = WeightRule::Backward::newest;
  const auto by_hand_stash = replay(true), by_hand_naive = replay(false);
  expect_equal(run(stash), by_hand_stash, model_);
  expect_equal(run(naive), by_hand_naive, model_);
  // The two rules must differ, or this could not have failed.
  double largest = 0;
  for (std::size_t i = 0; i < by_hand_stash[0].size(); ++i)
    largest = std::max(largest, std::abs(by_hand_stash[0][i] - by_hand_naive[0][i]));
  EXPECT_GT(largest, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Kinds, WeightVersions, testing::ValuesIn(kinds()),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace sluice
