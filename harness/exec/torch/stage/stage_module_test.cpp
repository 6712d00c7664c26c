// Stages against autograd on the whole model, whatever the cut; what a stage really keeps against
// core's stage_stash(); and initial weights against torch::nn.
#include "harness/exec/torch/stage/stage_module.h"

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "harness/exec/torch/layers/autograd_reference.h"

namespace sluice {
namespace {

ModelGraph mlp() {
  return {.name = "mlp",
          .inputs = {{.shape = {8}}},
          .layers = {{"fc1", Linear{8, 16}, {-1}},
                     {"relu1", Activation{}, {0}},
                     {"fc2", Linear{16, 16}, {1}},
                     {"tanh", Activation{Activation::Kind::tanh}, {2}},
                     {"fc3", Linear{16, 5}, {3}},
                     {"loss", CrossEntropyLoss{}, {4}}}};
}

// A small residual network: the first block's output skips two layers.
ModelGraph cnn() {
  return {.name = "cnn",
          .inputs = {{.shape = {2, 8, 8}}},
          .layers = {{"conv1", Conv2d{2, 4, 3, 1, 1, false}, {-1}},
                     {"norm1", BatchNorm{4}, {0}},
                     {"relu1", Activation{}, {1}},
                     {"pool", Pool2d{}, {2}},
                     {"conv2", Conv2d{4, 4, 3, 1, 1}, {3}},
                     {"norm2", BatchNorm{4}, {4}},
                     {"add", Add{}, {3, 5}},
                     {"relu2", Activation{}, {6}},
                     {"global", Pool2d{Pool2d::Mode::global_average}, {7}},
                     {"flat", Flatten{}, {8}},
                     {"fc", Linear{4, 3}, {9}},
                     {"loss", CrossEntropyLoss{}, {10}}}};
}

// A transformer block on token ids, with everything read twice that usually is.
ModelGraph transformer() {
  return {.name = "transformer",
          .inputs = {{.shape = {6}, .is_token_ids = true}},
          .layers = {{"embed", Embedding{12, 8}, {-1}},
                     {"norm1", LayerNorm{8}, {0}},
                     {"attention", Attention{8, 2, true}, {1}},
                     {"add1", Add{}, {0, 2}},
                     {"norm2", LayerNorm{8}, {3}},
                     {"up", Linear{8, 16}, {4}},
                     {"gelu", Activation{Activation::Kind::gelu}, {5}},
                     {"down", Linear{16, 8}, {6}},
                     {"add2", Add{}, {3, 7}},
                     {"head", Linear{8, 12}, {8}},
                     {"loss", CrossEntropyLoss{}, {9}}}};
}

// A recurrent encoder and a decoder that attends to it, with padding in both texts and a memory that two layers read.
ModelGraph translator() {
  return {.name = "translator",
          .inputs = {{.shape = {5}, .is_token_ids = true}, {.shape = {4}, .is_token_ids = true}},
          .layers = {{"source", Embedding{12, 6}, {-1}},
                     {"forward", Lstm{6, 3}, {0, -1}},
                     {"backward", Lstm{.in = 6, .hidden = 3, .reverse = true}, {0, -1}},
                     {"memory", Concat{1}, {1, 2}},
                     {"self", Attention{6, 2}, {3, -1}},
                     {"target", Embedding{12, 6}, {-2}},
                     {"positions", PositionEmbedding{4, 6}, {5}},
                     {"lstm", Lstm{6, 6}, {6}},
                     {"cross1", CrossAttention{6, 6, 1}, {7, 4, -1}},
                     {"add1", Add{}, {7, 8}},
                     {"cross2", CrossAttention{6, 6, 2}, {9, 4, -1}},
                     {"wide", Concat{1}, {10, 8}},
                     {"head", Linear{12, 12}, {11}},
                     {"loss", CrossEntropyLoss{}, {12}}}};
}

// A text to one vector.
ModelGraph text_classifier() {
  return {.name = "text_classifier",
          .inputs = {{.shape = {6}, .is_token_ids = true}},
          .layers = {{"embed", Embedding{12, 4}, {-1}},
                     {"positions", PositionEmbedding{6, 4}, {0}},
                     {"attention", Attention{4, 2}, {1, -1}},
                     {"add", Add{}, {1, 2}},
                     {"mean", SequencePool{SequencePool::Mode::mean}, {3, -1}},
                     {"last", SequencePool{SequencePool::Mode::last}, {2, -1}},
                     {"both", Add{}, {4, 5}},
                     {"fc", Linear{4, 3}, {6}},
                     {"loss", CrossEntropyLoss{}, {7}}}};
}

// A head that uses the embedding's table, with a bias of its own, after two layers with one weight.
ModelGraph tied_text() {
  return {.name = "tied_text",
          .inputs = {{.shape = {6}, .is_token_ids = true}},
          .layers = {{"embed", Embedding{12, 8}, {-1}},
                     {"twice", Linear{8, 8, false}, {0}},
                     {"tanh", Activation{Activation::Kind::tanh}, {1}},
                     {.name = "again", .kind = Linear{8, 8, false}, .inputs = {2}, .tied_to = 1},
                     {.name = "head", .kind = Linear{8, 12}, .inputs = {3}, .tied_to = 0},
                     {"loss", CrossEntropyLoss{}, {4}}}};
}

// The same without a tie to the embedding, so that it can be cut behind it.
ModelGraph tied_text_without_a_table() {
  return {.name = "tied_text_without_a_table",
          .inputs = {{.shape = {6}, .is_token_ids = true}},
          .layers = {{"embed", Embedding{12, 8}, {-1}},
                     {"twice", Linear{8, 8}, {0}},
                     {.name = "again", .kind = Linear{8, 8}, .inputs = {1}, .tied_to = 1},
                     {"head", Linear{8, 12}, {2}},
                     {"loss", CrossEntropyLoss{}, {3}}}};
}

// Two branches of different kinds on two inputs, joined both ways; one input is data only.
ModelGraph branches() {
  return {.name = "branches",
          .inputs = {{.shape = {4, 3}}, {.shape = {6}}},
          .layers = {{"lstm", Lstm{3, 5}, {-1}},
                     {"flat", Flatten{}, {0}},
                     {"squash", Activation{Activation::Kind::sigmoid}, {1}},
                     {"left", Linear{20, 6}, {2}},
                     {"right", Linear{6, 6}, {-2}},
                     {"sum", Add{}, {3, 4, -2}},
                     {"wide", Concat{0}, {5, 4, 3}},
                     {"out", Linear{18, 2}, {6}},
                     {"loss", MseLoss{}, {7}}}};
}

// Sample b ends in b positions of padding, but never begins with one.
at::Tensor padded_ids(at::Tensor ids, std::int64_t padding) {
  for (std::int64_t b = 0; b < ids.size(0); ++b)
    for (std::int64_t k = 0; k < b && k + 1 < ids.size(1); ++k) ids[b][ids.size(1) - 1 - k] = padding;
  return ids;
}

struct Batch {
  Tensors inputs;
  at::Tensor target;
};

Batch batch_for(const ModelGraph& model, std::int64_t size, at::ScalarType type) {
  Batch batch;
  for (const ModelInput& input : model.inputs) {
    Shape shape{size};
    shape.insert(shape.end(), input.shape.begin(), input.shape.end());
    batch.inputs.push_back(input.is_token_ids ? padded_ids(torch::randint(1, 12, shape, at::kLong), 0)
                                              : torch::randn(shape, type));
  }
  const auto shapes = model.shapes();
  Shape prediction = shapes[shapes.size() - 2];
  prediction.insert(prediction.begin(), size);
  if (has_dense_target(model.layers.back().kind)) {
    batch.target = torch::randn(prediction, type);
  } else {
    const std::int64_t classes = prediction.back();
    prediction.pop_back();
    batch.target = torch::randint(classes, prediction, at::kLong);
    if (prediction.size() == 2) batch.target = padded_ids(batch.target, -100);
  }
  return batch;
}

// A model cut into stages, run by hand: values and gradients travel through two tables.
class CutModel {
 public:
  CutModel(const ModelGraph& model, std::vector<int> stage_of, at::ScalarType type)
      : model_(model), stage_of_(std::move(stage_of)) {
    const int stages = *std::max_element(stage_of_.begin(), stage_of_.end()) + 1;
    interfaces_ = interfaces(model, stage_of_, stages);
    const auto initial = initial_weights(model, 3, at::TensorOptions(type));
    for (int s = 0; s < stages; ++s) {
      Tensors& weights = weights_.emplace_back();
      std::vector<int>& layers = layers_.emplace_back();
      for (std::size_t i = 0; i < stage_of_.size(); ++i) {
        if (stage_of_[i] != s) continue;
        layers.push_back(static_cast<int>(i));
        weights.insert(weights.end(), initial[i].begin(), initial[i].end());
      }
      Tensors& gradients = gradients_.emplace_back();
      for (const at::Tensor& weight : weights) gradients.push_back(at::zeros_like(weight));
      stages_.emplace_back(model, layers, interfaces_[s], at::TensorOptions(type));
    }
    stash_.resize(stages_.size());
  }

  at::Tensor forward(const Batch& batch, const ForwardMode& mode = {}) {
    std::map<int, at::Tensor> values;
    at::Tensor loss;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      Tensors received;
      for (const int producer : interfaces_[s].receives) {
        received.push_back(producer < 0 ? batch.inputs[-(producer + 1)] : values.at(producer));
      }
      const Tensors sent = stages_[s].forward(received, weights_[s], batch.target, mode,
                                              mode.training ? &stash_[s] : nullptr, &loss, &prediction);
      for (std::size_t i = 0; i < sent.size(); ++i) values[interfaces_[s].sends[i]] = sent[i];
    }
    return loss;
  }

  void input_gradient(double scale) {
    std::map<int, at::Tensor> gradients;
    for (std::size_t s = stages_.size(); s-- > 0;) {
      Tensors sent;
      for (const int layer : interfaces_[s].sends) sent.push_back(gradients.at(layer));
      const Tensors received = stages_[s].input_gradient(sent, scale, weights_[s], stash_[s]);
      for (std::size_t i = 0; i < received.size(); ++i) {
        const int producer = interfaces_[s].receives[i];
        ASSERT_EQ(received[i].defined(), producer >= 0);
        if (producer < 0) continue;
        at::Tensor& sum = gradients[producer];
        sum = sum.defined() ? sum + received[i] : received[i];
      }
    }
  }

  void weight_gradient() {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      StageStashTensors* const stash = &stash_[s];
      stages_[s].weight_gradient({&stash, 1}, gradients_[s]);
    }
  }

  // By layer, then parameter.
  std::vector<Tensors> by_layer(const std::vector<Tensors>& of_stages) const {
    std::vector<Tensors> result(model_.layers.size());
    std::vector<std::size_t> next(of_stages.size(), 0);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const auto s = static_cast<std::size_t>(stage_of_[i]);
      for (std::size_t p = 0; p < parameters(model_.layers[i]).size(); ++p) {
        result[i].push_back(of_stages[s][next[s]++]);
      }
    }
    return result;
  }

  ModelGraph model_;
  std::vector<int> stage_of_;
  std::vector<StageInterface> interfaces_;
  std::vector<StageModule> stages_;
  std::vector<std::vector<int>> layers_;
  std::vector<Tensors> weights_, gradients_;
  std::vector<StageStashTensors> stash_;
  at::Tensor prediction;
};

struct Cut {
  std::string name;
  ModelGraph model;
  std::vector<int> stage_of;
};

void PrintTo(const Cut& cut, std::ostream* out) { *out << cut.name; }

std::vector<Cut> cuts() {
  return {{"mlp_whole", mlp(), {0, 0, 0, 0, 0, 0}},
          {"mlp_in_two", mlp(), {0, 0, 1, 1, 1, 1}},
          {"mlp_cut_before_relu", mlp(), {0, 1, 1, 2, 2, 2}},
          {"cnn_whole", cnn(), {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
          {"cnn_cut_in_the_skip", cnn(), {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1}},
          {"cnn_skip_over_a_stage", cnn(), {0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2}},
          {"transformer_whole", transformer(), {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
          {"transformer_in_three", transformer(), {0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2}},
          {"branches_whole", branches(), {0, 0, 0, 0, 0, 0, 0, 0, 0}},
          {"branches_apart", branches(), {0, 0, 0, 0, 1, 2, 2, 2, 2}},
          {"translator_whole", translator(), {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
          {"translator_memory_past_a_stage", translator(), {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2}},
          // The second stage is a source too: it reads nothing of the first.
          {"translator_with_two_sources", translator(), {0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 3}},
          {"translator_cut_in_the_bidirectional_layer", translator(), {0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2}},
          {"text_classifier_whole", text_classifier(), {0, 0, 0, 0, 0, 0, 0, 0, 0}},
          {"tied_text_whole", tied_text(), {0, 0, 0, 0, 0, 0}},
          {"tied_text_in_two_with_its_ties", tied_text_without_a_table(), {0, 1, 1, 1, 1}},
          {"text_classifier_in_three", text_classifier(), {0, 1, 1, 1, 2, 2, 2, 2, 2}}};
}

class EveryCut : public testing::TestWithParam<Cut> {
 protected:
  void SetUp() override { torch::manual_seed(9); }
};

TEST_P(EveryCut, GradientsEqualAutograd) {
  const Cut& cut = GetParam();
  CutModel ours(cut.model, cut.stage_of, at::kDouble);
  const double scale = 0.25;
  std::vector<Tensors> expected;
  std::vector<Batch> batches;
  std::vector<at::Tensor> losses;
  for (int m = 0; m < 2; ++m) {
    batches.push_back(batch_for(cut.model, 3 + m, at::kDouble));
    std::vector<Tensors> weights;
    for (const Tensors& w : ours.by_layer(ours.weights_)) weights.push_back(leaves(w));
    const at::Tensor loss = reference_model(cut.model, leaves(batches.back().inputs), weights, batches.back().target);
    (loss * scale).backward();
    losses.push_back(loss.detach());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (m == 0) expected.push_back(gradients_of(weights[i]));
      for (std::size_t p = 0; m > 0 && p < weights[i].size(); ++p) {
        expected[i][p] = expected[i][p] + weights[i][p].grad();
      }
    }
  }
  const c10::InferenceMode guard;
  for (std::size_t m = 0; m < batches.size(); ++m) {
    const Tensors before = leaves(batches[m].inputs);
    const at::Tensor loss = ours.forward(batches[m]);
    EXPECT_NEAR(loss.item<double>(), losses[m].item<double>(), 1e-12);
    ours.input_gradient(scale);
    ours.weight_gradient();
    EXPECT_TRUE(at::equal(batches[m].inputs[0], before[0]));
  }
  const auto got = ours.by_layer(ours.gradients_);
  for (std::size_t i = 0; i < got.size(); ++i) {
    for (std::size_t p = 0; p < got[i].size(); ++p) {
      EXPECT_TRUE(at::allclose(got[i][p], expected[i][p], 0, 1e-10)) << cut.model.layers[i].name;
    }
  }
  for (const StageStashTensors& stash : ours.stash_) EXPECT_EQ(StageModule::stash_bytes(stash), 0);
}

TEST(StageModule, ATiedLayerBorrowsAWeightThatIsNotInItsStage) {
  const ModelGraph model = tied_text();
  const std::vector<int> stage_of = {0, 0, 0, 0, 1, 1};
  StageModule module(model, {4, 5}, interfaces(model, stage_of, 2)[1], at::kDouble);
  EXPECT_EQ(module.borrowed(), std::vector<int>{model.layers[4].tied_to});
  const Tensors received(1), own(module.parameters().size());
  EXPECT_THROW(module.forward(received, own, {}, {}, nullptr, nullptr), std::invalid_argument);
}

TEST_P(EveryCut, KeepsTheBytesThatTheModelDeclares) {
  const Cut& cut = GetParam();
  const auto shapes = cut.model.shapes();
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const Bytes element(type == at::kFloat ? 4 : 8);
    const c10::InferenceMode guard;
    CutModel ours(cut.model, cut.stage_of, type);
    const Batch batch = batch_for(cut.model, 5, type);
    Tensors not_ours = batch.inputs;
    not_ours.push_back(batch.target);
    ours.forward(batch);
    for (std::size_t s = 0; s < ours.stages_.size(); ++s) {
      EXPECT_EQ(StageModule::stash_bytes(ours.stash_[s], not_ours),
                stage_stash(cut.model, shapes, ours.layers_[s], 5, element).forward.value)
          << "forward, stage " << s;
    }
    ours.input_gradient(1);
    for (std::size_t s = 0; s < ours.stages_.size(); ++s) {
      EXPECT_EQ(StageModule::stash_bytes(ours.stash_[s], not_ours),
                stage_stash(cut.model, shapes, ours.layers_[s], 5, element).weight.value)
          << "weight, stage " << s;
    }
  }
}

TEST_P(EveryCut, DeclaredParametersAreTheRealOnes) {
  const Cut& cut = GetParam();
  const CutModel ours(cut.model, cut.stage_of, at::kFloat);
  std::int64_t count = 0;
  for (std::size_t s = 0; s < ours.stages_.size(); ++s) {
    const auto& declared = ours.stages_[s].parameters();
    ASSERT_EQ(declared.size(), ours.weights_[s].size());
    for (std::size_t p = 0; p < declared.size(); ++p) {
      EXPECT_EQ(ours.weights_[s][p].sizes(), at::IntArrayRef(declared[p].shape));
      count += ours.weights_[s][p].numel();
    }
  }
  EXPECT_EQ(count, parameter_count(cut.model));
}

INSTANTIATE_TEST_SUITE_P(Stages, EveryCut, testing::ValuesIn(cuts()), [](const auto& test) { return test.param.name; });

TEST(StageModule, SeveralMicroBatchesInFlightAndOneBatchedWeightGradient) {
  torch::manual_seed(4);
  const c10::InferenceMode guard;
  CutModel each(cnn(), std::vector<int>(12, 0), at::kDouble);
  CutModel batched(cnn(), std::vector<int>(12, 0), at::kDouble);
  std::vector<StageStashTensors> stashes(3);
  std::vector<StageStashTensors*> pointers;
  std::vector<Batch> batches;
  for (StageStashTensors& stash : stashes) {
    batches.push_back(batch_for(each.model_, 2, at::kDouble));
    each.forward(batches.back());
    each.input_gradient(1);
    each.weight_gradient();
    batched.stages_[0].forward(batches.back().inputs, batched.weights_[0], batches.back().target, {}, &stash, nullptr);
    pointers.push_back(&stash);
  }
  for (std::size_t m : {1u, 2u, 0u}) {
    batched.stages_[0].input_gradient({}, 1, batched.weights_[0], stashes[m]);
  }
  batched.stages_[0].weight_gradient(pointers, batched.gradients_[0]);
  for (std::size_t p = 0; p < each.gradients_[0].size(); ++p) {
    EXPECT_TRUE(at::allclose(batched.gradients_[0][p], each.gradients_[0][p], 0, 1e-10));
  }
}

TEST(StageModule, EvaluationKeepsNothingAndShowsThePrediction) {
  const c10::InferenceMode guard;
  CutModel model(mlp(), {0, 0, 0, 0, 0, 0}, at::kFloat);
  const Batch batch = batch_for(mlp(), 4, at::kFloat);
  model.forward(batch, {.training = false});
  EXPECT_TRUE(model.stash_[0].layers.empty());
  EXPECT_EQ(model.prediction.sizes(), at::IntArrayRef({4, 5}));
}

TEST(StageModule, HandsOutRunningStatistics) {
  const c10::InferenceMode guard;
  CutModel model(cnn(), std::vector<int>(12, 0), at::kFloat);
  const Tensors buffers = model.stages_[0].buffers();
  ASSERT_EQ(buffers.size(), 4u);
  EXPECT_TRUE(at::equal(buffers[1], at::ones({4})));
  model.forward(batch_for(cnn(), 4, at::kFloat));
  EXPECT_FALSE(at::equal(buffers[1], at::ones({4})));
}

TEST(StageModule, NeverWritesOverAReceivedValue) {
  const c10::InferenceMode guard;
  CutModel model(mlp(), {0, 1, 1, 1, 1, 1}, at::kFloat);
  const at::Tensor received = at::randn({4, 16}), copy = received.clone();
  const Batch batch = batch_for(mlp(), 4, at::kFloat);
  StageStashTensors stash;
  model.stages_[1].forward({&received, 1}, model.weights_[1], batch.target, {}, &stash, nullptr);
  EXPECT_TRUE(at::equal(received, copy));
}

TEST(StageModule, DropoutMasksDoNotDependOnTheCut) {
  const c10::InferenceMode guard;
  ModelGraph model = mlp();
  model.layers[3] = {"drop", Dropout{0.5}, {2}};
  const Batch batch = batch_for(model, 6, at::kFloat);
  CutModel whole(model, {0, 0, 0, 0, 0, 0}, at::kFloat), cut(model, {0, 0, 1, 2, 2, 2}, at::kFloat);
  const ForwardMode mode{.training = true, .seed = 1, .sequence = 5};
  EXPECT_EQ(whole.forward(batch, mode).item<float>(), cut.forward(batch, mode).item<float>());
  whole.input_gradient(1), whole.weight_gradient();
  cut.input_gradient(1), cut.weight_gradient();
  EXPECT_TRUE(at::equal(whole.gradients_[0][0], cut.gradients_[0][0]));
}

TEST(StageModule, RejectsTheWrongNumberOfTensors) {
  CutModel model(mlp(), {0, 0, 1, 1, 1, 1}, at::kFloat);
  EXPECT_THROW(model.stages_[1].forward({}, model.weights_[1], {}, {}, nullptr, nullptr), std::invalid_argument);
  EXPECT_THROW(model.stages_[0].input_gradient({}, 1, model.weights_[0], model.stash_[0]), std::invalid_argument);
}

TEST(InitialWeights, EqualTorchModulesBitForBit) {
  const ModelGraph model{.name = "kinds",
                         .inputs = {{.shape = {3, 6, 6}}},
                         .layers = {{"conv", Conv2d{3, 8, 3}, {-1}},
                                    {"norm", BatchNorm{8}, {0}},
                                    {"flat", Flatten{}, {1}},
                                    {"fc1", Linear{128, 20}, {2}, 7},
                                    {"fc2", Linear{20, 6}, {3}, 7},
                                    {"loss", CrossEntropyLoss{}, {4}}}};
  const auto weights = initial_weights(model, 40, at::kFloat);
  torch::manual_seed(40);
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(3, 8, 3));
  EXPECT_TRUE(at::equal(weights[0][0], conv->weight));
  EXPECT_TRUE(at::equal(weights[0][1], conv->bias));
  EXPECT_TRUE(at::equal(weights[1][0], at::ones({8})));
  EXPECT_TRUE(at::equal(weights[1][1], at::zeros({8})));
  torch::manual_seed(47);  // one block: one generator for both layers
  torch::nn::Linear fc1(128, 20), fc2(20, 6);
  EXPECT_TRUE(at::equal(weights[3][0], fc1->weight));
  EXPECT_TRUE(at::equal(weights[3][1], fc1->bias));
  EXPECT_TRUE(at::equal(weights[4][0], fc2->weight));
  EXPECT_TRUE(at::equal(weights[4][1], fc2->bias));
}

TEST(InitialWeights, OfSequenceLayersEqualTorchModules) {
  const ModelGraph model{
      .name = "sequence",
      .inputs = {{.shape = {5}, .is_token_ids = true}},
      .layers = {{"embed", Embedding{30, 8}, {-1}}, {"lstm", Lstm{8, 6}, {0}}, {"loss", MseLoss{}, {1}}}};
  const auto weights = initial_weights(model, 40, at::kFloat);
  torch::manual_seed(40);
  torch::nn::Embedding embed(30, 8);
  EXPECT_TRUE(at::equal(weights[0][0], embed->weight));
  torch::manual_seed(41);
  torch::nn::LSTM lstm(8, 6);
  const auto expected = lstm->parameters();
  ASSERT_EQ(weights[1].size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(at::equal(weights[1][i], expected[i]));
  }
}

TEST(InitialWeights, AreTheSameNumbersInEveryPrecision) {
  const auto single = initial_weights(mlp(), 1, at::kFloat);
  const auto twice = initial_weights(mlp(), 1, at::kDouble);
  EXPECT_EQ(twice[0][0].scalar_type(), at::kDouble);
  EXPECT_TRUE(at::equal(single[0][0].to(at::kDouble), twice[0][0]));
}

// Of fc1 (8 x 16 + 16), fc2 (16 x 16 + 16) and fc3 (16 x 5 + 5), from the last one on: 85, 272 and 144 floats.
TEST(StageModule, ItsGradientsAreCutIntoBucketsOfWholeLayersFromTheLastOneOn) {
  const ModelGraph model = mlp();
  const StageModule module(model, {0, 1, 2, 3, 4, 5}, interfaces(model, std::vector<int>(6, 0), 1)[0], at::kFloat);
  const auto buckets = module.gradient_buckets(Bytes(4 * 300));
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_EQ(std::tuple(buckets[0].first, buckets[0].end, buckets[0].step), std::tuple(144, 501, 2u));
  EXPECT_EQ(std::tuple(buckets[1].first, buckets[1].end, buckets[1].step), std::tuple(0, 144, 0u));
  EXPECT_EQ(module.gradient_buckets(Bytes(1)).size(), 3u);
  EXPECT_EQ(module.gradient_buckets(Bytes(1 << 20)).size(), 1u);
}

}  // namespace
}  // namespace sluice
