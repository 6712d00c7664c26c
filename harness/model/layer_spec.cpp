// What a layer declaration implies without running it: names, shapes and parameters. The formulas for work and memory
// are in layer_costs.cpp.
#include "harness/model/layer_spec.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "harness/base/error.h"
#include "harness/base/split.h"

namespace sluice {
namespace {

[[noreturn]] void fail(const LayerSpec& layer, const std::string& what) {
  throw InputError("layer '" + layer.name + "' (" + kind_name(layer.kind) + ")", what);
}

void require_positive(const LayerSpec& layer, std::int64_t value, const char* name) {
  if (value <= 0) fail(layer, std::string(name) + " must be positive, is " + std::to_string(value));
}

void require_last(const LayerSpec& layer, const Shape& x, std::int64_t width) {
  require_positive(layer, width, "width");
  if (x.empty() || x.back() != width)
    fail(layer, "expects a last dimension of " + std::to_string(width) + ", the input is " + to_text(x));
}

void require_image(const LayerSpec& layer, const Shape& x) {
  if (x.size() != 3) fail(layer, "expects [channels, height, width], the input is " + to_text(x));
}

void require_first(const LayerSpec& layer, const Shape& x, std::int64_t size, const char* what) {
  if (x[0] != size) fail(layer, "expects " + std::to_string(size) + " " + what + ", the input is " + to_text(x));
}

std::int64_t window_output(const LayerSpec& layer, std::int64_t size, std::int64_t kernel, std::int64_t stride,
                           std::int64_t padding) {
  require_positive(layer, kernel, "kernel");
  require_positive(layer, stride, "stride");
  if (!(padding >= 0)) fail(layer, "padding must not be negative");
  const std::int64_t room = size + 2 * padding - kernel;
  if (room < 0)
    fail(layer, "empty output: a window of " + std::to_string(kernel) + " does not fit into " + std::to_string(size) +
                    " with padding " + std::to_string(padding));
  return room / stride + 1;
}

struct OutputShape {
  const LayerSpec& layer;
  std::span<const Shape> in;

  void require_sequence(const Shape& x) const {
    if (x.size() != 2) fail(layer, "expects [steps, width], the input is " + to_text(x));
  }
  void require_ids(const Shape& ids, const Shape& x) const {
    if (ids != Shape{x[0]})
      fail(layer, "expects one token id a step of " + to_text(x) + ", the ids are " + to_text(ids));
  }
  void require_heads(std::int64_t width, std::int64_t heads) const {
    if (heads <= 0 || width % heads != 0)
      fail(layer, "width " + std::to_string(width) + " is not a multiple of " + std::to_string(heads) + " heads");
  }
  void require_groups(std::int64_t groups, std::int64_t in_channels, std::int64_t out) const {
    if (!(groups > 0 && in_channels % groups == 0 && out % groups == 0))
      fail(layer, std::to_string(groups) + " groups do not divide " + std::to_string(in_channels) +
                      " channels in and " + std::to_string(out) + " out");
  }

  Shape operator()(const Linear& k) const {
    require_positive(layer, k.out, "out");
    require_last(layer, in[0], k.in);
    Shape y = in[0];
    y.back() = k.out;
    return y;
  }
  Shape operator()(const Conv2d& k) const {
    const Shape& x = in[0];
    require_positive(layer, k.out, "out");
    require_image(layer, x);
    require_first(layer, x, k.in, "channels");
    require_groups(k.groups, k.in, k.out);
    return {k.out, window_output(layer, x[1], k.kernel, k.stride, k.padding),
            window_output(layer, x[2], k.kernel_across(), k.stride, k.padding_across())};
  }
  Shape operator()(const ConvNd& k) const {
    const Shape& x = in[0];
    require_positive(layer, k.out, "out");
    const std::size_t dimensions = k.kernel.size();
    if (!(dimensions >= 1 && dimensions <= 3))
      fail(layer, "kernel has one to three numbers, not " + std::to_string(dimensions));
    for (const auto* numbers : {&k.stride, &k.padding, &k.dilation})
      if (!(numbers->empty() || numbers->size() == dimensions))
        fail(layer, "stride, padding and dilation have as many numbers as kernel, " + std::to_string(dimensions) +
                        ", not " + std::to_string(numbers->size()));
    if (x.size() != dimensions + 1)
      fail(layer, "expects channels and " + std::to_string(dimensions) + " dimension" + (dimensions == 1 ? "" : "s") +
                      " more, the input is " + to_text(x));
    require_first(layer, x, k.in, "channels");
    require_groups(k.groups, k.in, k.out);
    Shape y{k.out};
    for (std::size_t i = 0; i < dimensions; ++i) {
      require_positive(layer, k.dilation_at(i), "dilation");
      const std::int64_t reach = k.kernel[i] > 0 ? k.dilation_at(i) * (k.kernel[i] - 1) + 1 : 0;
      y.push_back(window_output(layer, x[i + 1], reach, k.stride_at(i), k.padding_at(i)));
    }
    return y;
  }
  Shape operator()(const ConvTranspose2d& k) const {
    const Shape& x = in[0];
    require_positive(layer, k.out, "out");
    require_positive(layer, k.kernel, "kernel");
    require_positive(layer, k.stride, "stride");
    if (!(k.padding >= 0)) fail(layer, "padding must not be negative");
    require_image(layer, x);
    require_first(layer, x, k.in, "channels");
    const auto size = [&](std::int64_t n) {
      const std::int64_t made = (n - 1) * k.stride - 2 * k.padding + k.kernel;
      if (!(made > 0)) fail(layer, "empty output: a padding of " + std::to_string(k.padding) + " takes all of it away");
      return made;
    };
    return {k.out, size(x[1]), size(x[2])};
  }
  Shape operator()(const Pool2d& k) const {
    const Shape& x = in[0];
    if (k.mode == Pool2d::Mode::global_average && x.size() > 1) {
      Shape y(x.size(), 1);
      y[0] = x[0];
      return y;
    }
    require_image(layer, x);
    if (!(2 * k.padding <= k.kernel)) fail(layer, "padding must be at most half of the kernel");
    return {x[0], window_output(layer, x[1], k.kernel, k.stride, k.padding),
            window_output(layer, x[2], k.kernel, k.stride, k.padding)};
  }
  Shape operator()(const Upsample& k) const {
    const Shape& x = in[0];
    require_image(layer, x);
    require_positive(layer, k.factor, "factor");
    return {x[0], x[1] * k.factor, x[2] * k.factor};
  }
  Shape operator()(const InstanceNorm& k) const {
    const Shape& x = in[0];
    require_image(layer, x);
    require_first(layer, x, k.features, "features");
    if (!(x[1] * x[2] > 1)) fail(layer, "has one element a feature, " + to_text(x) + ", which is its own mean");
    return x;
  }
  Shape operator()(const GroupNorm& k) const {
    const Shape& x = in[0];
    require_first(layer, x, k.features, "features");
    if (!(k.groups > 0 && k.features % k.groups == 0))
      fail(layer, std::to_string(k.groups) + " groups do not divide " + std::to_string(k.features) + " features");
    if (!(elements(x) > k.groups)) fail(layer, "has one element a group, " + to_text(x) + ", which is its own mean");
    return x;
  }
  Shape operator()(const BatchNorm& k) const {
    const Shape& x = in[0];
    if (!(!x.empty() && x.size() <= 4))
      fail(layer, "expects [features] and up to three dimensions more, the input is " + to_text(x));
    require_first(layer, x, k.features, "features");
    return x;
  }
  Shape operator()(const LayerNorm& k) const {
    require_last(layer, in[0], k.features);
    return in[0];
  }
  Shape operator()(const RmsNorm& k) const {
    require_last(layer, in[0], k.features);
    return in[0];
  }
  Shape operator()(const Activation&) const { return in[0]; }
  Shape operator()(const Dropout& k) const {
    if (!(k.probability >= 0 && k.probability < 1)) fail(layer, "probability must be in [0, 1)");
    if (k.channels) require_image(layer, in[0]);
    return in[0];
  }
  Shape operator()(const Embedding& k) const {
    require_positive(layer, k.vocabulary, "vocabulary");
    require_positive(layer, k.width, "width");
    Shape y = in[0];
    y.push_back(k.width);
    return y;
  }
  Shape operator()(const PositionEmbedding& k) const {
    require_sequence(in[0]);
    require_last(layer, in[0], k.width);
    if (!(in[0][0] <= k.steps))
      fail(layer, "has " + std::to_string(k.steps) + " positions, the input is " + to_text(in[0]));
    return in[0];
  }
  Shape operator()(const PatchEmbedding& k) const {
    const Shape& x = in[0];
    require_positive(layer, k.width, "width");
    require_positive(layer, k.patch, "patch");
    require_image(layer, x);
    require_first(layer, x, k.channels, "channels");
    if (!(x[1] % k.patch == 0 && x[2] % k.patch == 0))
      fail(layer, "patches of " + std::to_string(k.patch) + " do not divide the input " + to_text(x));
    return {x[1] / k.patch * (x[2] / k.patch), k.width};
  }
  Shape operator()(const ClassToken& k) const {
    require_sequence(in[0]);
    require_last(layer, in[0], k.width);
    return {in[0][0] + 1, k.width};
  }
  Shape operator()(const LstmCell& k) const {
    require_positive(layer, k.hidden, "hidden");
    if (!(in[0].size() == 1)) fail(layer, "expects one step [in], the input is " + to_text(in[0]));
    require_last(layer, in[0], k.in);
    if (!(in[1] == Shape{2 * k.hidden}))
      fail(layer, "expects a state of " + to_text(Shape{2 * k.hidden}) + ", got " + to_text(in[1]));
    return in[1];
  }
  Shape operator()(const Lstm& k) const {
    require_positive(layer, k.hidden, "hidden");
    if (!(in[0].size() == 2)) fail(layer, "expects [steps, in], the input is " + to_text(in[0]));
    require_last(layer, in[0], k.in);
    if (in.size() > 1) require_ids(in[1], in[0]);
    return {in[0][0], k.hidden};
  }
  Shape operator()(const Attention& k) const {
    require_sequence(in[0]);
    require_last(layer, in[0], k.width);
    require_heads(k.heads_width(), k.heads);
    if (!(k.kv_heads == 0 || (k.kv_heads > 0 && k.heads % k.kv_heads == 0)))
      fail(layer,
           std::to_string(k.kv_heads) + " key and value heads do not divide " + std::to_string(k.heads) + " heads");
    if (!(k.rotary == 0 || (k.rotary > 0 && k.heads_width() / k.heads % 2 == 0)))
      fail(layer, "rotary positions need a base above 0 and heads of an even width");
    if (in.size() > 1) require_ids(in[1], in[0]);
    return in[0];
  }
  Shape operator()(const RelativeAttention& k) const {
    require_sequence(in[0]);
    require_last(layer, in[0], k.width);
    require_heads(k.heads_width(), k.heads);
    if (!(k.width % 2 == 0)) fail(layer, "width " + std::to_string(k.width) + " is odd: sines and cosines share it");
    return in[0];
  }
  Shape operator()(const CrossAttention& k) const {
    require_sequence(in[0]);
    require_sequence(in[1]);
    require_last(layer, in[0], k.width);
    require_last(layer, in[1], k.memory);
    require_heads(k.heads_width(), k.heads);
    if (in.size() > 2) require_ids(in[2], in[1]);
    return in[0];
  }
  Shape operator()(const Experts& k) const {
    require_last(layer, in[0], k.features);
    require_positive(layer, k.hidden, "hidden");
    if (!(k.top_k > 0 && k.top_k <= k.experts))
      fail(layer,
           "top_k " + std::to_string(k.top_k) + " is not between 1 and its " + std::to_string(k.experts) + " experts");
    if (!(k.capacity >= 0)) fail(layer, "capacity must not be negative");
    return in[0];
  }
  Shape operator()(const SequencePool& k) const {
    require_sequence(in[0]);
    if (in.size() == 2 && k.mode == SequencePool::Mode::first) fail(layer, "takes no ids to pick the first position");
    if (in.size() == 2) require_ids(in[1], in[0]);
    return {in[0][1]};
  }
  Shape operator()(const Add&) const {
    for (const Shape& x : in) {
      if (!(x == in[0])) fail(layer, "inputs differ: " + to_text(in[0]) + " and " + to_text(x));
    }
    return in[0];
  }
  Shape operator()(const Multiply&) const {
    if (!(in[1] == in[0] || (in[0].size() == 3 && in[1] == Shape{in[0][0], 1, 1})))
      fail(layer, "inputs differ: " + to_text(in[0]) + " and " + to_text(in[1]));
    return in[0];
  }
  Shape operator()(const Concat& k) const {
    Shape y = in[0];
    if (!(k.axis >= 0 && k.axis < static_cast<std::int64_t>(y.size())))
      fail(layer, "axis " + std::to_string(k.axis) + " is outside of " + to_text(y));
    const auto axis = static_cast<std::size_t>(k.axis);
    for (const Shape& x : in.subspan(1)) {
      Shape expected = in[0];
      if (x.size() == expected.size()) expected[axis] = x[axis];
      if (!(x == expected))
        fail(layer,
             "inputs differ outside of axis " + std::to_string(k.axis) + ": " + to_text(in[0]) + " and " + to_text(x));
      y[axis] += x[axis];
    }
    return y;
  }
  Shape operator()(const Flatten&) const { return {elements(in[0])}; }
  Shape operator()(const Permute& k) const {
    const Shape& x = in[0];
    Shape y;
    for (const std::int64_t axis : k.axes)
      if (axis >= 0 && axis < static_cast<std::int64_t>(x.size())) y.push_back(x[static_cast<std::size_t>(axis)]);
    const std::set<std::int64_t> different(k.axes.begin(), k.axes.end());
    if (!(y.size() == x.size() && different.size() == x.size() && k.axes.size() == x.size()))
      fail(layer, "axes name every dimension of the input " + to_text(x) + " once, from 0");
    return y;
  }
  Shape operator()(const Module& k) const {
    for (const std::int64_t ids : k.token_inputs)
      if (ids < 0 || ids >= static_cast<std::int64_t>(in.size()))
        fail(layer, "token_inputs names input " + std::to_string(ids) + ", it has " + std::to_string(in.size()));
    if (k.token_inputs.empty() != (k.vocabulary == 0)) fail(layer, "token_inputs and vocabulary are given together");
    return k.output;
  }
  Shape operator()(const CrossEntropyLoss&) const {
    if (!(in[0].size() == 1 || in[0].size() == 2))
      fail(layer, "expects [classes] or [steps, classes], the input is " + to_text(in[0]));
    return {};
  }
  Shape operator()(const MseLoss&) const { return {}; }
  Shape operator()(const BinaryCrossEntropyLoss&) const { return {}; }
};

using Init = ParameterSpec::Init;
using Parameters = std::vector<ParameterSpec>;

// torch's Linear and Conv2d: kaiming_uniform(a = sqrt 5) for the weight. Computed in torch's own order of operations,
// so that the drawn numbers are the same to the last bit.
ParameterSpec kaiming(std::string name, Shape shape, std::int64_t fan_in) {
  const double deviation = std::sqrt(2.0 / (1 + 5.0)) / std::sqrt(static_cast<double>(fan_in));
  return {std::move(name), std::move(shape), Init::uniform, std::sqrt(3.0) * deviation};
}

ParameterSpec reciprocal_root(std::string name, Shape shape, std::int64_t fan) {
  return {std::move(name), std::move(shape), Init::uniform, 1 / std::sqrt(static_cast<double>(fan))};
}

Parameters lstm_parameters(std::int64_t in, std::int64_t hidden) {
  return {reciprocal_root("weight_ih", {4 * hidden, in}, hidden),
          reciprocal_root("weight_hh", {4 * hidden, hidden}, hidden), reciprocal_root("bias_ih", {4 * hidden}, hidden),
          reciprocal_root("bias_hh", {4 * hidden}, hidden)};
}

Parameters scale_and_shift(std::int64_t features) {
  return {{"weight", {features}, Init::ones, 0}, {"bias", {features}, Init::zeros, 0}};
}

struct ParametersOf {
  Parameters operator()(const Linear& k) const {
    Parameters result{kaiming("weight", {k.out, k.in}, k.in)};
    if (k.bias) result.push_back(reciprocal_root("bias", {k.out}, k.in));
    return result;
  }
  Parameters operator()(const Conv2d& k) const {
    const std::int64_t in = k.in / std::max<std::int64_t>(1, k.groups), fan_in = in * k.kernel * k.kernel_across();
    Parameters result{kaiming("weight", {k.out, in, k.kernel, k.kernel_across()}, fan_in)};
    if (k.bias) result.push_back(reciprocal_root("bias", {k.out}, fan_in));
    return result;
  }
  Parameters operator()(const ConvNd& k) const {
    Shape shape{k.out, k.in / std::max<std::int64_t>(1, k.groups)};
    shape.insert(shape.end(), k.kernel.begin(), k.kernel.end());
    double inputs = 1;  // a reader asks before it knows that the sizes are possible
    for (std::size_t i = 1; i < shape.size(); ++i) inputs *= static_cast<double>(shape[i]);
    const auto fan_in = static_cast<std::int64_t>(std::min(inputs, 1e18));
    Parameters result{kaiming("weight", std::move(shape), fan_in)};
    if (k.bias) result.push_back(reciprocal_root("bias", {k.out}, fan_in));
    return result;
  }
  Parameters operator()(const ConvTranspose2d& k) const {
    const std::int64_t fan = k.out * k.kernel * k.kernel;  // torch takes the second dimension for the inputs
    Parameters result{kaiming("weight", {k.in, k.out, k.kernel, k.kernel}, fan)};
    if (k.bias) result.push_back(reciprocal_root("bias", {k.out}, fan));
    return result;
  }
  Parameters operator()(const RmsNorm& k) const { return {{"weight", {k.features}, Init::ones, 0}}; }
  Parameters operator()(const BatchNorm& k) const { return scale_and_shift(k.features); }
  Parameters operator()(const GroupNorm& k) const { return scale_and_shift(k.features); }
  Parameters operator()(const LayerNorm& k) const { return scale_and_shift(k.features); }
  Parameters operator()(const Embedding& k) const { return {{"weight", {k.vocabulary, k.width}, Init::normal, 1.0}}; }
  Parameters operator()(const PositionEmbedding& k) const {
    return {{"weight", {k.steps, k.width}, Init::normal, k.deviation}};
  }
  Parameters operator()(const PatchEmbedding& k) const {
    const std::int64_t fan_in = k.channels * k.patch * k.patch;
    return {kaiming("weight", {k.width, k.channels, k.patch, k.patch}, fan_in),
            reciprocal_root("bias", {k.width}, fan_in)};
  }
  Parameters operator()(const ClassToken& k) const { return {{"weight", {k.width}, Init::zeros, 0}}; }
  Parameters operator()(const LstmCell& k) const { return lstm_parameters(k.in, k.hidden); }
  Parameters operator()(const Lstm& k) const { return lstm_parameters(k.in, k.hidden); }
  Parameters operator()(const Attention& k) const {
    const std::int64_t inner = k.heads_width(), projected = inner + 2 * k.kv_width();
    Parameters result{kaiming("qkv", {projected, k.width}, k.width)};
    if (k.qkv_bias) result.push_back(reciprocal_root("qkv_bias", {projected}, k.width));
    result.push_back(kaiming("proj", {k.width, inner}, inner));
    if (k.proj_bias) result.push_back(reciprocal_root("proj_bias", {k.width}, inner));
    return result;
  }
  Parameters operator()(const CrossAttention& k) const {
    const std::int64_t inner = k.heads_width();
    if (!k.bias)
      return {kaiming("q", {inner, k.width}, k.width), kaiming("kv", {2 * inner, k.memory}, k.memory),
              kaiming("proj", {k.width, inner}, inner)};
    return {kaiming("q", {inner, k.width}, k.width),        reciprocal_root("q_bias", {inner}, k.width),
            kaiming("kv", {2 * inner, k.memory}, k.memory), reciprocal_root("kv_bias", {2 * inner}, k.memory),
            kaiming("proj", {k.width, inner}, inner),       reciprocal_root("proj_bias", {k.width}, inner)};
  }
  Parameters operator()(const RelativeAttention& k) const {
    const std::int64_t inner = k.heads_width();
    return {kaiming("qkv", {3 * inner, k.width}, k.width), kaiming("position", {inner, k.width}, k.width),
            reciprocal_root("content_bias", {inner}, k.width), reciprocal_root("position_bias", {inner}, k.width),
            kaiming("proj", {k.width, inner}, inner)};
  }
  Parameters operator()(const Experts& k) const {
    const Shape inward{k.held_experts(), k.hidden, k.features};
    Parameters result{kaiming("router", {k.experts, k.features}, k.features)};
    if (k.gated) result.push_back(kaiming("gate", inward, k.features));
    result.push_back(kaiming("up", inward, k.features));
    result.push_back(kaiming("down", {k.held_experts(), k.features, k.hidden}, k.hidden));
    return result;
  }
  Parameters operator()(const Module& k) const {
    Parameters result;
    for (const Shape& shape : k.weights) result.push_back({module_weight(result.size()), shape, Init::stored, 0});
    return result;
  }
  template <class Kind>
  Parameters operator()(const Kind&) const {
    return {};
  }
};

}  // namespace

std::int64_t Experts::capacity_of(std::int64_t tokens) const {
  if (capacity == 0) return tokens;
  constexpr double kRounding = 1e-9;  // 1.1 x 20 / 2 is 11
  const double share = static_cast<double>(tokens * top_k) / static_cast<double>(experts);
  return std::clamp(static_cast<std::int64_t>(std::ceil(capacity * share - kRounding)), std::int64_t{1}, tokens);
}

std::int64_t Experts::rows_of(std::int64_t tokens) const {
  const std::int64_t chosen = tokens * top_k;
  const std::int64_t rows = capacity == 0 ? chosen : std::min(chosen, experts * capacity_of(tokens));
  const std::int64_t share = held_experts() * spread;  // of as many replicas' rows
  return rows / experts * share + (rows % experts * share + experts - 1) / experts;
}

std::string module_weight(std::size_t number) { return "weight_" + std::to_string(number); }
std::string module_buffer(std::size_t number) { return "buffer_" + std::to_string(number); }

std::int64_t elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string to_text(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

std::string kind_name(const LayerKind& kind) {
  static const std::vector<std::string> in_its_order = split(
      "Linear Conv2d ConvNd ConvTranspose2d Pool2d Upsample BatchNorm InstanceNorm GroupNorm LayerNorm RmsNorm "
      "Activation Dropout Embedding PositionEmbedding PatchEmbedding ClassToken LstmCell Lstm Attention CrossAttention "
      "RelativeAttention Experts SequencePool Add Multiply Concat Flatten Permute Module CrossEntropyLoss MseLoss "
      "BinaryCrossEntropyLoss",
      " ");
  return in_its_order.at(kind.index());
}

bool is_loss(const LayerKind& kind) { return std::holds_alternative<CrossEntropyLoss>(kind) || has_dense_target(kind); }

bool convolves(const LayerKind& kind) {
  return std::holds_alternative<Conv2d>(kind) || std::holds_alternative<ConvNd>(kind) ||
         std::holds_alternative<ConvTranspose2d>(kind);
}

bool has_dense_target(const LayerKind& kind) {
  return std::holds_alternative<MseLoss>(kind) || std::holds_alternative<BinaryCrossEntropyLoss>(kind);
}

int token_input(const LayerKind& kind) {
  if (std::holds_alternative<Embedding>(kind)) return 0;
  if (std::holds_alternative<Attention>(kind) || std::holds_alternative<Lstm>(kind) ||
      std::holds_alternative<SequencePool>(kind))
    return 1;
  return std::holds_alternative<CrossAttention>(kind) ? 2 : -1;
}

bool takes_ids(const LayerKind& kind, int input) {
  const auto* module = std::get_if<Module>(&kind);
  return module ? std::ranges::count(module->token_inputs, input) > 0 : input == token_input(kind);
}

Shape output_shape(const LayerSpec& layer, std::span<const Shape> inputs) {
  const auto is = [&]<class... Kinds>() { return (std::holds_alternative<Kinds>(layer.kind) || ...); };
  std::size_t least = 1, most = 1;
  if (is.operator()<Add, Concat, Module>()) most = SIZE_MAX;
  if (is.operator()<Attention, Lstm>()) most = 2;
  if (is.operator()<LstmCell, Multiply>()) least = most = 2;
  if (is.operator()<SequencePool>()) most = 2;
  if (is.operator()<CrossAttention>()) least = 2, most = 3;
  if (!(inputs.size() >= least && inputs.size() <= most))
    fail(layer, "takes " +
                    (most == SIZE_MAX ? "at least 1"
                     : least == most  ? std::to_string(most)
                                      : std::to_string(least) + " or " + std::to_string(most)) +
                    " input" + (most == 1 || most == SIZE_MAX ? "" : "s") + ", has " + std::to_string(inputs.size()));
  return std::visit(OutputShape{layer, inputs}, layer.kind);
}

std::vector<ParameterSpec> parameters(const LayerSpec& layer) {
  Parameters result = std::visit(ParametersOf{}, layer.kind);
  if (layer.tied_to >= 0 && !result.empty()) result.erase(result.begin());
  return result;
}

LayerSpec untied(LayerSpec layer) {
  layer.tied_to = -1;
  return layer;
}

std::int64_t parameter_count(const LayerSpec& layer) {
  std::int64_t count = 0;
  for (const ParameterSpec& parameter : parameters(layer)) count += elements(parameter.shape);
  return count;
}

std::vector<ParameterSpec> trained_parameters(const LayerSpec& layer) {
  return layer.frozen ? Parameters{} : parameters(layer);
}

std::int64_t trained_parameter_count(const LayerSpec& layer) { return layer.frozen ? 0 : parameter_count(layer); }

bool learns(const LayerSpec& layer) { return !layer.frozen && (layer.tied_to >= 0 || parameter_count(layer) > 0); }

}  // namespace sluice
