// Every kind of layer against autograd in fp64, and what it really keeps against what it declares.
#include "harness/exec/torch/layers/layers.h"

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "harness/exec/torch/layers/autograd_reference.h"
#include "harness/exec/torch/stage/stage_module.h"

namespace sluice {
namespace {

struct Case {
  std::string name;
  LayerKind kind;
  std::vector<Shape> inputs;
  std::int64_t ids_below = 0;  // the input that is token ids has them below this
  Shape target = {};           // without the batch dimension
  std::int64_t classes = 0;    // target: int64 below this; 0: numbers
  bool has_one_matrix = true;  // no weight's gradient passes through another weight
  bool has_padded_targets = false;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

using Mode = Pool2d::Mode;
using Kind = Activation::Kind;

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {.name = "linear", .kind = Linear{7, 5}, .inputs = {{7}}},
      {.name = "linear_without_bias", .kind = Linear{7, 5, false}, .inputs = {{7}}},
      {.name = "linear_on_sequence", .kind = Linear{7, 5}, .inputs = {{4, 7}}},
      {.name = "conv", .kind = Conv2d{3, 4, 3}, .inputs = {{3, 7, 6}}},
      {.name = "conv_strided", .kind = Conv2d{3, 4, 3, 2, 1}, .inputs = {{3, 8, 7}}},
      {.name = "conv_oblong",
       .kind = Conv2d{.in = 3, .out = 4, .kernel = 1, .kernel_w = 5, .padding_w = 2},
       .inputs = {{3, 4, 6}}},
      {.name = "conv_1x1_without_bias", .kind = Conv2d{3, 4, 1, 1, 0, false}, .inputs = {{3, 5, 5}}},
      {.name = "conv_in_groups",
       .kind = Conv2d{.in = 4, .out = 6, .kernel = 3, .padding = 1, .groups = 2},
       .inputs = {{4, 5, 6}}},
      {.name = "conv_of_each_channel",
       .kind = Conv2d{.in = 4, .out = 4, .kernel = 3, .stride = 2, .bias = false, .groups = 4},
       .inputs = {{4, 7, 6}}},
      {.name = "conv_of_sounds",
       .kind = ConvNd{.in = 3, .out = 4, .kernel = {5}, .stride = {2}, .padding = {2}},
       .inputs = {{3, 11}}},
      {.name = "conv_of_sounds_in_groups_with_holes",
       .kind = ConvNd{.in = 4, .out = 6, .kernel = {3}, .dilation = {2}, .bias = false, .groups = 2},
       .inputs = {{4, 9}}},
      {.name = "conv_of_images_with_holes",
       .kind = ConvNd{.in = 3, .out = 4, .kernel = {3, 2}, .stride = {1, 2}, .padding = {2, 0}, .dilation = {2, 1}},
       .inputs = {{3, 6, 7}}},
      {.name = "conv_of_films",
       .kind = ConvNd{.in = 2, .out = 3, .kernel = {3, 1, 2}, .stride = {1, 2, 1}, .padding = {1, 0, 1}},
       .inputs = {{2, 4, 5, 3}}},
      {.name = "conv_transpose", .kind = ConvTranspose2d{3, 4, 2, 2}, .inputs = {{3, 4, 5}}},
      {.name = "conv_transpose_padded", .kind = ConvTranspose2d{3, 4, 4, 2, 1, false}, .inputs = {{3, 3, 5}}},
      {.name = "max_pool", .kind = Pool2d{Mode::max, 3, 2, 1}, .inputs = {{3, 8, 7}}},
      {.name = "average_pool", .kind = Pool2d{Mode::average, 3, 2, 1}, .inputs = {{3, 8, 7}}},
      {.name = "global_pool", .kind = Pool2d{Mode::global_average}, .inputs = {{3, 5, 4}}},
      {.name = "global_pool_of_sounds", .kind = Pool2d{Mode::global_average}, .inputs = {{3, 5}}},
      {.name = "permute", .kind = Permute{{1, 2, 0}}, .inputs = {{3, 5, 4}}},
      {.name = "transpose", .kind = Permute{{1, 0}}, .inputs = {{3, 5}}},
      {.name = "upsample", .kind = Upsample{}, .inputs = {{3, 4, 5}}},
      {.name = "upsample_by_three", .kind = Upsample{3}, .inputs = {{2, 2, 1}}},
      {.name = "instance_norm", .kind = InstanceNorm{3}, .inputs = {{3, 5, 4}}},
      {.name = "batch_norm_image", .kind = BatchNorm{3}, .inputs = {{3, 5, 4}}},
      {.name = "batch_norm_of_sounds", .kind = BatchNorm{3}, .inputs = {{3, 5}}},
      {.name = "batch_norm_of_films", .kind = BatchNorm{3}, .inputs = {{3, 2, 5, 4}}},
      {.name = "batch_norm_flat", .kind = BatchNorm{6}, .inputs = {{6}}},
      {.name = "group_norm", .kind = GroupNorm{6, 2}, .inputs = {{6, 3, 4}}},
      {.name = "group_norm_flat", .kind = GroupNorm{6, 3, 1e-3}, .inputs = {{6}}},
      {.name = "layer_norm", .kind = LayerNorm{6}, .inputs = {{6}}},
      {.name = "layer_norm_on_sequence", .kind = LayerNorm{6}, .inputs = {{4, 6}}},
      {.name = "rms_norm", .kind = RmsNorm{6}, .inputs = {{6}}},
      {.name = "rms_norm_on_sequence", .kind = RmsNorm{6, 1e-3}, .inputs = {{4, 6}}},
      {.name = "relu", .kind = Activation{Kind::relu}, .inputs = {{3, 5}}},
      {.name = "gelu", .kind = Activation{Kind::gelu}, .inputs = {{3, 5}}},
      {.name = "gelu_tanh", .kind = Activation{Kind::gelu_tanh}, .inputs = {{3, 5}}},
      {.name = "silu", .kind = Activation{Kind::silu}, .inputs = {{3, 5}}},
      {.name = "leaky_relu", .kind = Activation{Kind::leaky_relu}, .inputs = {{3, 5}}},
      {.name = "relu6", .kind = Activation{Kind::relu6}, .inputs = {{3, 5}}},
      {.name = "hardsigmoid", .kind = Activation{Kind::hardsigmoid}, .inputs = {{3, 5}}},
      {.name = "hardswish", .kind = Activation{Kind::hardswish}, .inputs = {{3, 5}}},
      {.name = "tanh", .kind = Activation{Kind::tanh}, .inputs = {{3, 5}}},
      {.name = "sigmoid", .kind = Activation{Kind::sigmoid}, .inputs = {{3, 5}}},
      {.name = "embedding", .kind = Embedding{11, 4}, .inputs = {{6}}, .ids_below = 11},
      {.name = "position_embedding", .kind = PositionEmbedding{4, 6}, .inputs = {{4, 6}}},
      {.name = "position_embedding_of_less", .kind = PositionEmbedding{9, 6}, .inputs = {{4, 6}}},
      {.name = "patch_embedding", .kind = PatchEmbedding{3, 2, 5}, .inputs = {{3, 4, 6}}},
      {.name = "class_token", .kind = ClassToken{6}, .inputs = {{4, 6}}},
      {.name = "first_of_sequence", .kind = SequencePool{SequencePool::Mode::first}, .inputs = {{4, 6}}},
      {.name = "mean_of_sequence", .kind = SequencePool{SequencePool::Mode::mean}, .inputs = {{4, 6}}},
      {.name = "last_of_sequence", .kind = SequencePool{SequencePool::Mode::last}, .inputs = {{4, 6}}},
      {.name = "lstm_cell", .kind = LstmCell{5, 3}, .inputs = {{5}, {6}}, .has_one_matrix = false},
      {.name = "lstm", .kind = Lstm{5, 3}, .inputs = {{4, 5}}, .has_one_matrix = false},
      {.name = "lstm_of_one_step", .kind = Lstm{5, 3}, .inputs = {{1, 5}}, .has_one_matrix = false},
      {.name = "lstm_reverse", .kind = Lstm{5, 3, true}, .inputs = {{4, 5}}, .has_one_matrix = false},
      {.name = "lstm_with_padding",
       .kind = Lstm{5, 3},
       .inputs = {{6, 5}, {6}},
       .ids_below = 4,
       .has_one_matrix = false},
      {.name = "lstm_reverse_with_padding",
       .kind = Lstm{5, 3, true},
       .inputs = {{6, 5}, {6}},
       .ids_below = 4,
       .has_one_matrix = false},
      {.name = "attention", .kind = Attention{6, 2}, .inputs = {{5, 6}}, .has_one_matrix = false},
      {.name = "causal_attention", .kind = Attention{6, 3, true}, .inputs = {{5, 6}}, .has_one_matrix = false},
      {.name = "rotary_attention", .kind = Attention{8, 2, false, 10'000}, .inputs = {{5, 8}}, .has_one_matrix = false},
      {.name = "causal_rotary_attention",
       .kind = Attention{8, 2, true, 100},
       .inputs = {{6, 8}},
       .has_one_matrix = false},
      {.name = "attention_with_padding",
       .kind = Attention{6, 2},
       .inputs = {{5, 6}, {5}},
       .ids_below = 4,
       .has_one_matrix = false},
      {.name = "causal_attention_with_padding",
       .kind = Attention{6, 2, true},
       .inputs = {{5, 6}, {5}},
       .ids_below = 4,
       .has_one_matrix = false},
      {.name = "grouped_query_attention",
       .kind = Attention{.width = 8, .heads = 4, .kv_heads = 2},
       .inputs = {{5, 8}},
       .has_one_matrix = false},
      {.name = "causal_rotary_attention_with_one_key_head_and_no_bias",
       .kind = Attention{.width = 6,
                         .heads = 3,
                         .causal = true,
                         .rotary = 100,
                         .inner = 12,
                         .kv_heads = 1,
                         .qkv_bias = false,
                         .proj_bias = false},
       .inputs = {{5, 6}},
       .has_one_matrix = false},
      {.name = "attention_with_a_bias_of_its_projections_only",
       .kind = Attention{.width = 6, .heads = 2, .proj_bias = false},
       .inputs = {{5, 6}, {5}},
       .ids_below = 4,
       .has_one_matrix = false},
      {.name = "cross_attention_without_bias",
       .kind = CrossAttention{.width = 6, .memory = 4, .heads = 2, .bias = false},
       .inputs = {{5, 6}, {3, 4}},
       .has_one_matrix = false},
      {.name = "cross_attention", .kind = CrossAttention{6, 4, 2}, .inputs = {{5, 6}, {3, 4}}, .has_one_matrix = false},
      {.name = "cross_attention_with_padding",
       .kind = CrossAttention{6, 4, 1},
       .inputs = {{3, 6}, {7, 4}, {7}},
       .ids_below = 4,
       .has_one_matrix = false},
      {.name = "relative_attention", .kind = RelativeAttention{6, 3}, .inputs = {{5, 6}}, .has_one_matrix = false},
      {.name = "relative_attention_of_one_position",
       .kind = RelativeAttention{4, 1},
       .inputs = {{1, 4}},
       .has_one_matrix = false},
      {.name = "narrower_relative_attention",
       .kind = RelativeAttention{8, 2, 4},
       .inputs = {{4, 8}},
       .has_one_matrix = false},
      {.name = "experts", .kind = Experts{6, 5, 4}, .inputs = {{7, 6}}, .has_one_matrix = false},
      {.name = "experts_of_a_vector",
       .kind = Experts{.features = 4, .hidden = 3, .experts = 3, .top_k = 3},
       .inputs = {{4}},
       .has_one_matrix = false},
      {.name = "experts_without_gate",
       .kind = Experts{.features = 4,
                       .hidden = 6,
                       .experts = 5,
                       .top_k = 3,
                       .gated = false,
                       .activation = Activation::Kind::relu},
       .inputs = {{6, 4}},
       .has_one_matrix = false},
      {.name = "experts_that_drop_tokens",
       .kind = Experts{.features = 4, .hidden = 3, .experts = 3, .capacity = 0.7},
       .inputs = {{9, 4}},
       .has_one_matrix = false},
      {.name = "experts_with_room_for_some_more",
       .kind = Experts{.features = 4, .hidden = 3, .experts = 4, .gated = false, .capacity = 1.25},
       .inputs = {{6, 4}},
       .has_one_matrix = false},
      {.name = "mean_over_real_tokens",
       .kind = SequencePool{SequencePool::Mode::mean},
       .inputs = {{6, 3}, {6}},
       .ids_below = 4},
      {.name = "last_real_token",
       .kind = SequencePool{SequencePool::Mode::last},
       .inputs = {{6, 3}, {6}},
       .ids_below = 4},
      {.name = "multiply_by_channel", .kind = Multiply{}, .inputs = {{3, 4, 5}, {3, 1, 1}}},
      {.name = "add_two", .kind = Add{}, .inputs = {{3, 4}, {3, 4}}},
      {.name = "add_three", .kind = Add{}, .inputs = {{4}, {4}, {4}}},
      {.name = "add_one", .kind = Add{}, .inputs = {{4}}},
      {.name = "multiply", .kind = Multiply{}, .inputs = {{3, 4}, {3, 4}}},
      {.name = "concat_channels", .kind = Concat{0}, .inputs = {{2, 3, 3}, {1, 3, 3}}},
      {.name = "concat_last", .kind = Concat{1}, .inputs = {{3, 2}, {3, 4}, {3, 1}}},
      {.name = "flatten", .kind = Flatten{}, .inputs = {{2, 3, 4}}},
      {.name = "cross_entropy", .kind = CrossEntropyLoss{}, .inputs = {{5}}, .classes = 5},
      {.name = "cross_entropy_on_sequence",
       .kind = CrossEntropyLoss{},
       .inputs = {{4, 5}},
       .target = {4},
       .classes = 5},
      {.name = "cross_entropy_with_padding",
       .kind = CrossEntropyLoss{},
       .inputs = {{6, 5}},
       .target = {6},
       .classes = 5,
       .has_padded_targets = true},
      {.name = "mse", .kind = MseLoss{}, .inputs = {{4, 5}}, .target = {4, 5}},
      {.name = "binary_cross_entropy", .kind = BinaryCrossEntropyLoss{}, .inputs = {{1, 4, 5}}, .target = {1, 4, 5}},
  };
  return all;
}

Shape batched(std::int64_t batch, const Shape& shape) {
  Shape result{batch};
  result.insert(result.end(), shape.begin(), shape.end());
  return result;
}

// From 1, with as many zeros at the end as the sample's number says, but not at the first position.
at::Tensor padded(at::Tensor ids, std::int64_t padding) {
  for (std::int64_t b = 0; b < ids.size(0); ++b)
    for (std::int64_t k = 0; k < b && k + 1 < ids.size(1); ++k) ids[b][ids.size(1) - 1 - k] = padding;
  return ids;
}

// One micro-batch of a case: its data, and what autograd makes of it.
struct Sample {
  Tensors x;
  at::Tensor target, y, dy;
  Tensors dx, dw;
};

class EveryLayer : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    torch::manual_seed(5);
    for (const ParameterSpec& parameter : parameters(spec_)) {
      weights_.push_back(torch::randn(parameter.shape, at::kDouble));
    }
  }

  Sample sample(std::int64_t batch, const Tensors& weights) const {
    Sample s;
    for (const Shape& shape : GetParam().inputs) {
      s.x.push_back(is_ids(s.x.size())
                        ? padded(torch::randint(1, GetParam().ids_below, batched(batch, shape), at::kLong), 0)
                        : torch::randn(batched(batch, shape), at::kDouble));
    }
    const Shape target = batched(batch, GetParam().target);
    s.target =
        GetParam().classes ? torch::randint(GetParam().classes, target, at::kLong) : torch::randn(target, at::kDouble);
    if (GetParam().has_padded_targets) s.target = padded(s.target, -100);
    s.dy = at::Tensor();
    differentiate(s, weights);
    return s;
  }

  void differentiate(Sample& s, const Tensors& weights) const {
    const Tensors x = leaves(s.x), w = leaves(weights);
    const at::Tensor y = reference_layer(spec_.kind, x, w, s.target);
    if (!s.dy.defined()) s.dy = torch::randn(y.sizes(), at::kDouble);
    y.backward(s.dy);
    s.y = y.detach();
    s.dx = gradients_of(x);
    s.dw = gradients_of(w);
  }

  std::unique_ptr<Layer> make_it(at::ScalarType type = at::kDouble) const {
    return make_layer(spec_, GetParam().inputs, 3, at::TensorOptions(type));
  }

  bool is_ids(std::size_t input) const {
    return GetParam().ids_below > 0 && static_cast<int>(input) == token_input(GetParam().kind);
  }
  std::vector<bool> wanted() const {
    std::vector<bool> result;
    for (std::size_t i = 0; i < GetParam().inputs.size(); ++i) result.push_back(!is_ids(i));
    return result;
  }

  static Tensors zeros_like(const Tensors& tensors) {
    Tensors result;
    for (const at::Tensor& tensor : tensors) result.push_back(at::zeros_like(tensor));
    return result;
  }

  static void expect_close(const at::Tensor& got, const at::Tensor& wanted, const char* what) {
    ASSERT_TRUE(got.defined()) << what;
    ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
    EXPECT_TRUE(at::allclose(got, wanted, 0, 1e-10))
        << what << " differs by " << (got - wanted).abs().max().item<double>();
  }
  static void expect_close(const Tensors& got, const Tensors& wanted, const char* what) {
    ASSERT_EQ(got.size(), wanted.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (wanted[i].defined()) expect_close(got[i], wanted[i], what);
    }
  }

  LayerSpec spec_{.name = "layer", .kind = GetParam().kind, .inputs = {}, .block = -1};
  Tensors weights_;
};

class LayerWithOneMatrix : public EveryLayer {};
class LayerWithSeveralMatrices : public EveryLayer {};

TEST_P(EveryLayer, MatchesAutograd) {
  const Sample s = sample(3, weights_);
  const c10::InferenceMode guard;
  const auto layer = make_it();
  LayerStash stash;
  const Tensors before{s.x[0].clone(), s.dy.clone()};
  const at::Tensor second_reference = s.dy;  // a sole one may be written over
  expect_close(layer->forward(s.x, weights_, s.target, {}, false, &stash), s.y, "output");
  expect_close(layer->input_gradient(s.dy, weights_, wanted(), stash), s.dx, "input gradient");
  EXPECT_TRUE(at::equal(s.x[0], before[0])) << "the input was written over";
  EXPECT_TRUE(at::equal(s.dy, before[1])) << "somebody else's gradient was written over";
  const Tensors gradients = zeros_like(weights_);
  LayerStash* const one = &stash;
  layer->weight_gradient({&one, 1}, gradients);
  expect_close(gradients, s.dw, "weight gradient");
  EXPECT_TRUE(stash.kept.empty());
}

TEST_P(EveryLayer, WeightGradientOfSeveralMicroBatchesIsTheirSum) {
  std::vector<Sample> samples;
  for (const std::int64_t batch : {3, 2, 4}) samples.push_back(sample(batch, weights_));
  const c10::InferenceMode guard;
  const auto layer = make_it();
  std::vector<LayerStash> stashes(samples.size());
  std::vector<LayerStash*> pointers;
  Tensors expected, gradients;
  for (const at::Tensor& weight : weights_) {
    gradients.push_back(at::ones_like(weight));  // what is there already stays
    expected.push_back(at::ones_like(weight));
  }
  for (std::size_t m = 0; m < samples.size(); ++m) {
    layer->forward(samples[m].x, weights_, samples[m].target, {}, false, &stashes[m]);
    pointers.push_back(&stashes[m]);
  }
  for (std::size_t m = 0; m < samples.size(); ++m) {
    expect_close(layer->input_gradient(samples[m].dy, weights_, wanted(), stashes[m]), samples[m].dx, "input gradient");
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i].add_(samples[m].dw[i]);
  }
  layer->weight_gradient(pointers, gradients);
  expect_close(gradients, expected, "weight gradient");
  for (const LayerStash& stash : stashes) EXPECT_TRUE(stash.kept.empty());
}

TEST_P(LayerWithOneMatrix, AnotherVersionInBackwardChangesOnlyTheInputGradient) {
  Sample s = sample(3, weights_);
  const Tensors dw = s.dw;
  Tensors other;
  for (const at::Tensor& weight : weights_) other.push_back(torch::randn_like(weight));
  differentiate(s, other);  // dx of these layers depends on the backward's version only
  const c10::InferenceMode guard;
  const auto layer = make_it();
  LayerStash stash;
  layer->forward(s.x, weights_, s.target, {}, false, &stash);
  expect_close(layer->input_gradient(s.dy, other, wanted(), stash), s.dx, "input gradient");
  const Tensors gradients = zeros_like(weights_);
  LayerStash* const one = &stash;
  layer->weight_gradient({&one, 1}, gradients);
  expect_close(gradients, dw, "weight gradient");
}

TEST_P(LayerWithSeveralMatrices, TheFirstOnesVersionReachesOnlyTheInputGradient) {
  const Sample s = sample(3, weights_);
  Tensors other = weights_;
  other[0] = torch::randn_like(weights_[0]);
  const c10::InferenceMode guard;
  const auto layer = make_it();
  LayerStash stash;
  layer->forward(s.x, weights_, s.target, {}, false, &stash);
  const Tensors dx = layer->input_gradient(s.dy, other, wanted(), stash);
  EXPECT_FALSE(at::allclose(dx[0], s.dx[0], 0, 1e-3));
  const Tensors gradients = zeros_like(weights_);
  LayerStash* const one = &stash;
  layer->weight_gradient({&one, 1}, gradients);
  expect_close(gradients, s.dw, "weight gradient");
}

TEST_P(EveryLayer, GivesNoGradientWhereNoneIsWanted) {
  const Sample s = sample(3, weights_);
  const c10::InferenceMode guard;
  const auto layer = make_it();
  LayerStash stash;
  layer->forward(s.x, weights_, s.target, {}, false, &stash);
  const std::vector<bool> none(s.x.size(), false);
  for (const at::Tensor& dx : layer->input_gradient(s.dy, weights_, none, stash)) {
    EXPECT_FALSE(dx.defined());
  }
  const Tensors gradients = zeros_like(weights_);
  LayerStash* const one = &stash;
  layer->weight_gradient({&one, 1}, gradients);
  expect_close(gradients, s.dw, "weight gradient");
}

TEST_P(EveryLayer, KeepsTheBytesItDeclares) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const std::int64_t batch = 3;
    const Bytes element(type == at::kFloat ? 4 : 8);
    Sample s = sample(batch, weights_);
    const c10::InferenceMode guard;
    Tensors x, w;
    for (const at::Tensor& t : s.x) x.push_back(t.is_floating_point() ? t.to(type) : t.clone());
    for (const at::Tensor& t : weights_) w.push_back(t.to(type));
    if (s.target.is_floating_point()) s.target = s.target.to(type);
    const Shape out = output_shape(spec_, GetParam().inputs);
    const StashSpec declared = sluice::stash(spec_, GetParam().inputs, element);
    Bytes inputs;
    Tensors not_ours{s.target};  // and ids, as the model's input data
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (is_ids(i)) {
        not_ours.push_back(x[i]);
      } else {
        inputs += Bytes(static_cast<std::int64_t>(x[i].nbytes()));
      }
    }
    const Bytes output = batch * elements(out) * element;

    const auto layer = make_it(type);
    StageStashTensors stash;
    stash.layers.resize(1);
    at::Tensor y = layer->forward(x, w, s.target, {}, false, &stash.layers[0]);
    EXPECT_EQ(Shape(y.sizes().begin() + (is_loss(spec_.kind) ? 0 : 1), y.sizes().end()), out);
    Bytes forward = batch * declared.extra + declared.extra_per_microbatch;
    if (declared.keeps_input) forward += inputs;
    if (declared.keeps_output) forward += output;
    EXPECT_EQ(StageModule::stash_bytes(stash, not_ours), forward.value) << at::toString(type);

    const at::Tensor dy = s.dy.to(type);
    layer->input_gradient(dy, w, wanted(), stash.layers[0]);
    Bytes weight = batch * declared.extra_until_weight_gradient + declared.extra_until_weight_gradient_per_microbatch;
    if (declared.input_until_weight_gradient) weight += inputs;
    if (declared.output_until_weight_gradient) weight += output;
    if (declared.output_gradient_until_weight_gradient) weight += output;
    EXPECT_EQ(StageModule::stash_bytes(stash, not_ours), weight.value) << at::toString(type);
  }
}

std::string name_of(const testing::TestParamInfo<Case>& test) { return test.param.name; }

std::vector<Case> with_weights(bool one_matrix) {
  std::vector<Case> result;
  for (const Case& c : cases()) {
    const bool has_weights = parameter_count({.name = "", .kind = c.kind, .inputs = {}}) > 0;
    if (has_weights && c.has_one_matrix == one_matrix) result.push_back(c);
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(Layers, EveryLayer, testing::ValuesIn(cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Layers, LayerWithOneMatrix, testing::ValuesIn(with_weights(true)), name_of);
INSTANTIATE_TEST_SUITE_P(Layers, LayerWithSeveralMatrices, testing::ValuesIn(with_weights(false)), name_of);

}  // namespace
}  // namespace sluice
