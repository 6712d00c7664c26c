// What a layer costs, by formula: FLOPs of its three passes and the bytes it keeps between them. The bytes are exact:
// harness/exec/torch compares them with the storages really held.
#include "harness/model/layer_spec.h"

namespace sluice {
namespace {

struct FlopsOf {
  std::span<const Shape> in;
  const Shape& out;
  AttentionScores scores;

  // A product with `weights` multiply-adds a sample costs as much in each of the three passes: the transposed product
  // gives dx, the outer product dW.
  static LayerFlops product(double weights) {
    const Flops pass(2 * weights);
    return {pass, pass, pass};
  }
  static LayerFlops elementwise(double forward, double backward) { return {Flops(forward), Flops(backward), Flops(0)}; }
  double x() const { return static_cast<double>(elements(in[0])); }
  double y() const { return static_cast<double>(elements(out)); }
  double products_back() const { return scores == AttentionScores::fused ? 5 : 4; }  // of attention's backward

  LayerFlops operator()(const Linear& k) const { return product(x() * static_cast<double>(k.out)); }
  LayerFlops operator()(const Conv2d& k) const {
    const std::int64_t inputs = k.in / k.groups;  // of an output channel; groups divides in
    return product(y() * static_cast<double>(inputs * k.kernel * k.kernel_across()));
  }
  LayerFlops operator()(const ConvNd& k) const {
    return product(y() * static_cast<double>(k.in / k.groups * elements(k.kernel)));
  }
  LayerFlops operator()(const ConvTranspose2d& k) const {
    return product(x() * static_cast<double>(k.out * k.kernel * k.kernel));
  }
  LayerFlops operator()(const Pool2d& k) const {
    const double window = y() * static_cast<double>(k.kernel * k.kernel);
    switch (k.mode) {
      case Pool2d::Mode::max:
        return elementwise(window, y());  // the gradient goes to one element of each window
      case Pool2d::Mode::average:
        return elementwise(window, window);
      case Pool2d::Mode::global_average:
        break;
    }
    return elementwise(x(), x());
  }
  LayerFlops operator()(const Upsample&) const { return elementwise(0, y()); }  // the gradients of a window add up
  // As BatchNorm, without scale and shift.
  LayerFlops operator()(const InstanceNorm&) const { return elementwise(6 * x(), 10 * x()); }
  // Sum, centre, square, sum, normalise, scale, shift; and back: two sums over dy and dy x^, then dx from both.
  LayerFlops operator()(const BatchNorm&) const { return elementwise(8 * x(), 11 * x()); }
  LayerFlops operator()(const GroupNorm&) const { return elementwise(8 * x(), 11 * x()); }
  LayerFlops operator()(const LayerNorm&) const { return elementwise(8 * x(), 11 * x()); }
  // Square, sum, scale twice; and back: the sum of dy x^, then dx from both.
  LayerFlops operator()(const RmsNorm&) const { return elementwise(4 * x(), 7 * x()); }
  LayerFlops operator()(const Activation&) const { return elementwise(x(), x()); }
  LayerFlops operator()(const Dropout&) const { return elementwise(2 * x(), 2 * x()); }
  LayerFlops operator()(const Embedding&) const { return {Flops(0), Flops(0), Flops(y())}; }
  LayerFlops operator()(const PositionEmbedding&) const { return {Flops(x()), Flops(0), Flops(x())}; }
  LayerFlops operator()(const PatchEmbedding& k) const {
    return product(y() * static_cast<double>(k.channels * k.patch * k.patch));
  }
  LayerFlops operator()(const ClassToken& k) const { return {Flops(0), Flops(0), Flops(static_cast<double>(k.width))}; }
  LayerFlops operator()(const LstmCell& k) const { return lstm(1, k.in, k.hidden); }
  LayerFlops operator()(const Lstm& k) const { return lstm(in[0][0], k.in, k.hidden); }
  static LayerFlops lstm(std::int64_t steps, std::int64_t width, std::int64_t hidden) {
    LayerFlops result = product(4.0 * static_cast<double>(steps) * static_cast<double>(hidden * (width + hidden)));
    // Forward: 4 gates, c' = f c + i g (3), h' = o tanh c' (2). Backward: about twice that.
    result.forward += Flops(static_cast<double>(9 * steps * hidden));
    result.input_gradient += Flops(static_cast<double>(18 * steps * hidden));
    return result;
  }
  LayerFlops operator()(const Attention& k) const {
    const auto t = static_cast<double>(in[0][0]);
    const auto w = static_cast<double>(k.width), heads = static_cast<double>(k.heads_width());
    const auto kv = static_cast<double>(k.kv_width());
    const double pairs = k.causal && scores == AttentionScores::fused ? t * (t + 1) / 2 : t * t;
    // The four projections; then q k^T and p v forward, and backward those two transposed for two operands each plus q
    // k^T once more, where the probabilities are not kept.
    LayerFlops result = product(t * w * (2 * heads + 2 * kv));
    result.forward += Flops(2 * 2 * pairs * heads);
    result.input_gradient += Flops(products_back() * 2 * pairs * heads);
    if (k.rotary > 0) {  // q and k, three operations an element
      result.forward += Flops(3 * t * (heads + kv));
      result.input_gradient += Flops(3 * t * (heads + kv));
    }
    return result;
  }
  LayerFlops operator()(const CrossAttention& k) const {
    const auto t = static_cast<double>(in[0][0]), s = static_cast<double>(in[1][0]);
    const auto w = static_cast<double>(k.width), m = static_cast<double>(k.memory);
    const auto heads = static_cast<double>(k.heads_width());
    LayerFlops result = product(2 * t * w * heads + 2 * s * m * heads);
    result.forward += Flops(2 * 2 * t * s * heads);
    result.input_gradient += Flops(products_back() * 2 * t * s * heads);
    return result;
  }
  // As Attention without its mask, with scores of distances besides: their products are of q with 2t - 1 distances, in
  // both directions, and the projection of the distances, which is of a micro-batch, counts for every sample.
  LayerFlops operator()(const RelativeAttention& k) const {
    const auto t = static_cast<double>(in[0][0]), distances = 2 * t - 1;
    const auto w = static_cast<double>(k.width), heads = static_cast<double>(k.heads_width());
    const double again = scores == AttentionScores::fused ? 1 : 0;
    LayerFlops result = product(4 * t * w * heads);
    result.forward += Flops(2 * distances * w * heads);  // of constants: no input gradient
    result.weight_gradient += Flops(2 * distances * w * heads);
    result.forward += Flops(2 * (2 * t * t + t * distances) * heads);
    result.input_gradient += Flops(2 * ((4 + again) * t * t + (2 + again) * t * distances) * heads);
    return result;
  }
  // Every expert has the same number of rows. Forward: router, products, f and the gate, and the rows weighted and
  // summed. Backward: their transposes; f, the gate and their values again; the weights, those of the router's softmax,
  // and the sum of the rows. Choosing experts is not counted.
  LayerFlops operator()(const Experts& k) const {
    const double tokens = x() / static_cast<double>(k.features), matrices = k.gated ? 3 : 2;
    const auto rows = static_cast<double>(k.rows_of(elements(in[0]) / k.features));
    const auto features = static_cast<double>(k.features), hidden = static_cast<double>(k.hidden);
    LayerFlops result = product(x() * static_cast<double>(k.experts) + matrices * rows * features * hidden);
    const double function = k.gated ? 2 : 1;  // f, and the product with the gate
    result.forward += Flops(rows * (function * hidden + 2 * features));
    result.input_gradient += Flops(rows * ((2 * function + (k.gated ? 1 : 0) + 4) * hidden + features));
    result.forward += Flops(3 * tokens * static_cast<double>(k.top_k));
    result.input_gradient += Flops(4 * tokens * static_cast<double>(k.top_k));
    return result;
  }
  LayerFlops operator()(const SequencePool&) const { return elementwise(x(), x()); }
  LayerFlops operator()(const Add&) const { return elementwise(static_cast<double>(in.size() - 1) * y(), 0); }
  LayerFlops operator()(const Multiply&) const { return elementwise(y(), (in[1] == in[0] ? 2 : 3) * y()); }
  LayerFlops operator()(const Concat&) const { return elementwise(0, 0); }
  LayerFlops operator()(const Flatten&) const { return elementwise(0, 0); }
  LayerFlops operator()(const Permute&) const { return elementwise(0, 0); }
  LayerFlops operator()(const Module& k) const {
    return {Flops(k.forward_flop), Flops(k.input_gradient_flop), Flops(k.weight_gradient_flop)};
  }
  LayerFlops operator()(const CrossEntropyLoss&) const { return elementwise(4 * x(), 2 * x()); }
  LayerFlops operator()(const MseLoss&) const { return elementwise(3 * x(), x()); }
  LayerFlops operator()(const BinaryCrossEntropyLoss&) const { return elementwise(6 * x(), 3 * x()); }
};

struct StashOf {
  std::span<const Shape> in;
  const Shape& out;
  const Storage& storage;
  const Bytes element = storage.activation, statistic = storage.statistic();

  static StashSpec product() {
    return {.keeps_input = true, .input_until_weight_gradient = true, .output_gradient_until_weight_gradient = true};
  }
  StashSpec operator()(const Linear&) const { return product(); }
  StashSpec operator()(const Conv2d&) const { return product(); }
  StashSpec operator()(const ConvNd&) const { return product(); }
  StashSpec operator()(const ConvTranspose2d&) const { return product(); }
  StashSpec operator()(const Embedding&) const { return product(); }
  StashSpec operator()(const PatchEmbedding&) const { return product(); }
  StashSpec operator()(const ClassToken& k) const {
    return {.extra_until_weight_gradient_per_microbatch = k.width * element};  // its gradient
  }
  StashSpec operator()(const Pool2d& k) const {
    // The position of each maximum as int64; averages need only shapes.
    if (k.mode == Pool2d::Mode::max) return {.extra = Bytes(8) * elements(out)};
    return {};
  }
  StashSpec operator()(const Upsample&) const { return {}; }
  StashSpec operator()(const InstanceNorm& k) const {  // a sample's mean and inverse deviation
    return {.keeps_input = true, .extra = 2 * k.features * statistic};
  }
  StashSpec operator()(const BatchNorm& k) const {
    // Batch mean and inverse deviation; later the sums for weight and bias.
    return {.keeps_input = true,
            .extra_per_microbatch = 2 * k.features * statistic,
            .extra_until_weight_gradient_per_microbatch = 2 * k.features * element};
  }
  StashSpec operator()(const GroupNorm& k) const {
    return {.keeps_input = true,
            .extra = 2 * k.groups * statistic,
            .extra_until_weight_gradient_per_microbatch = 2 * k.features * element};
  }
  StashSpec operator()(const LayerNorm& k) const {
    return {.keeps_input = true,
            .extra = 2 * (elements(in[0]) / k.features) * statistic,
            .extra_until_weight_gradient_per_microbatch = 2 * k.features * element};
  }
  StashSpec operator()(const RmsNorm& k) const {  // one reciprocal root a row; later the sums for the weight
    return {.keeps_input = true,
            .extra = elements(in[0]) / k.features * statistic,
            .extra_until_weight_gradient_per_microbatch = k.features * element};
  }
  StashSpec operator()(const Activation& k) const {
    if (!backward_reads_output(k)) return {.keeps_input = true};
    return {.keeps_output = true, .output_is_input = true};
  }
  StashSpec operator()(const Dropout& k) const {
    return {.extra = Bytes(k.channels ? in[0][0] : elements(in[0]))};  // a mask of one byte an element or channel
  }
  StashSpec operator()(const LstmCell& k) const {
    // The four gates, replaced by their gradients.
    return {.keeps_input = true,
            .extra = 4 * k.hidden * element,
            .input_until_weight_gradient = true,
            .extra_until_weight_gradient = 4 * k.hidden * element};
  }
  StashSpec operator()(const Lstm& k) const {
    // Gates and cell states of all steps; the hidden states are the output.
    const std::int64_t steps = in[0][0];
    return {.keeps_input = true,
            .keeps_output = true,
            .extra = 5 * steps * k.hidden * element,
            .input_until_weight_gradient = true,
            .output_until_weight_gradient = true,
            .extra_until_weight_gradient = 4 * steps * k.hidden * element};
  }
  StashSpec operator()(const Attention& k) const {
    // q, k, v, the heads' output and what is kept of the scores; then dq, dk, dv and the heads' output, which the
    // projection's weight gradient needs.
    const Bytes heads = in[0][0] * (2 * k.heads_width() + 2 * k.kv_width()) * element;
    return {.keeps_input = true,
            .extra = heads + scores(k.heads, in[0][0], in[0][0]),
            .input_until_weight_gradient = true,
            .output_gradient_until_weight_gradient = true,
            .extra_until_weight_gradient = heads};
  }
  StashSpec operator()(const PositionEmbedding&) const { return {.output_gradient_until_weight_gradient = true}; }
  StashSpec operator()(const CrossAttention& k) const {
    // q, k, v and the heads' output, and what is kept of the scores; then as for Attention.
    const Bytes projected = (2 * in[0][0] + 2 * in[1][0]) * k.heads_width() * element;
    return {.keeps_input = true,
            .extra = projected + scores(k.heads, in[0][0], in[1][0]),
            .input_until_weight_gradient = true,
            .output_gradient_until_weight_gradient = true,
            .extra_until_weight_gradient = projected};
  }
  StashSpec operator()(const RelativeAttention& k) const {
    // As Attention; and of the micro-batch the projected distances and both biases, then the gradients of these.
    const Bytes heads = in[0][0] * k.heads_width() * element, shared = (2 * in[0][0] + 1) * k.heads_width() * element;
    return {.keeps_input = true,
            .extra = 4 * heads + scores(k.heads, in[0][0], in[0][0]),
            .extra_per_microbatch = shared,
            .input_until_weight_gradient = true,
            .output_gradient_until_weight_gradient = true,
            .extra_until_weight_gradient = 4 * heads,
            .extra_until_weight_gradient_per_microbatch = shared};
  }
  StashSpec operator()(const Experts& k) const {
    // The chosen experts (int64) and their p, and what goes into f and the gate; then the gradients of the scores that
    // were chosen and of what went into f and the gate, and p times the input of W_down. Inputs are gathered again.
    const std::int64_t tokens = elements(in[0]) / k.features, chosen = tokens * k.top_k;
    const Bytes choice = chosen * (Bytes(8) + element), hidden = k.rows_of(tokens) * k.hidden * element;
    const std::int64_t inward = k.gated ? 2 : 1;
    if (k.spread > 1) {  // what came from the replicas cannot be gathered again: inputs, then output gradients, too
      const Bytes received = k.rows_of(tokens) * k.features * element;
      return {.keeps_input = true,
              .extra = choice + inward * hidden + received,
              .input_until_weight_gradient = true,
              .extra_until_weight_gradient = choice + (inward + 1) * hidden + 2 * received};
    }
    return {.keeps_input = true,
            .extra = choice + inward * hidden,
            .input_until_weight_gradient = true,
            .output_gradient_until_weight_gradient = true,
            .extra_until_weight_gradient = choice + (inward + 1) * hidden};
  }
  StashSpec operator()(const SequencePool&) const { return {}; }
  StashSpec operator()(const Add&) const { return {}; }
  StashSpec operator()(const Multiply&) const { return {.keeps_input = true}; }
  StashSpec operator()(const Concat&) const { return {}; }
  StashSpec operator()(const Permute&) const { return {}; }
  StashSpec operator()(const Flatten&) const { return {.output_is_input = true}; }
  StashSpec operator()(const Module& k) const {
    constexpr std::int64_t kDeclared = 4;  // bytes of an element that the file counts
    const auto bytes = [&](std::int64_t declared) { return (declared + kDeclared - 1) / kDeclared * element; };
    StashSpec kept{.keeps_input = k.keeps_input,
                   .keeps_output = k.keeps_output,
                   .extra = bytes(k.stash),
                   .extra_per_microbatch = bytes(k.stash_per_microbatch)};
    if (k.weights.empty()) return kept;
    kept.input_until_weight_gradient = k.keeps_input;
    kept.output_until_weight_gradient = k.keeps_output;
    kept.extra_until_weight_gradient = bytes(k.weight_stash);
    kept.extra_until_weight_gradient_per_microbatch = bytes(k.weight_stash_per_microbatch);
    return kept;
  }
  // Log-probabilities; differences.
  StashSpec operator()(const CrossEntropyLoss&) const { return {.extra = elements(in[0]) * statistic}; }
  StashSpec operator()(const MseLoss&) const { return {.extra = elements(in[0]) * element}; }
  StashSpec operator()(const BinaryCrossEntropyLoss&) const { return {.extra = elements(in[0]) * element}; }

  // Of `heads` heads' scores of `rows` positions on `columns`: their log-sum-exps, or the matrices.
  Bytes scores(std::int64_t heads, std::int64_t rows, std::int64_t columns) const {
    switch (storage.attention) {
      case AttentionScores::fused:
        return statistic * heads * rows;
      case AttentionScores::kept:
        return element * heads * rows * columns;
      case AttentionScores::kept_with_dropout:
        return (element + Bytes(1) + element) * heads * rows * columns;  // a mask of one byte an element
    }
    return Bytes(0);
  }
};

}  // namespace

LayerFlops flops(const LayerSpec& layer, std::span<const Shape> inputs, AttentionScores scores) {
  const Shape out = output_shape(layer, inputs);
  return std::visit(FlopsOf{inputs, out, scores}, layer.kind);
}

StashSpec stash(const LayerSpec& layer, std::span<const Shape> inputs, const Storage& storage) {
  const Shape out = output_shape(layer, inputs);
  StashSpec keeps = std::visit(StashOf{inputs, out, storage}, layer.kind);
  if (!layer.frozen) return keeps;
  keeps.input_until_weight_gradient = keeps.output_gradient_until_weight_gradient = false;
  keeps.output_until_weight_gradient = false;
  keeps.extra_until_weight_gradient = keeps.extra_until_weight_gradient_per_microbatch = Bytes(0);
  if (keeps_input_for_weights_only(layer.kind)) keeps.keeps_input = false;
  return keeps;
}

bool keeps_input_for_weights_only(const LayerKind& kind) {
  return std::holds_alternative<Linear>(kind) || std::holds_alternative<Attention>(kind) ||
         std::holds_alternative<Experts>(kind);
}

Bytes kept_scores(const LayerSpec& layer, std::span<const Shape> inputs, const Storage& storage) {
  const Shape out = output_shape(layer, inputs);
  const StashOf of{inputs, out, storage};
  if (const auto* own = std::get_if<Attention>(&layer.kind)) return of.scores(own->heads, inputs[0][0], inputs[0][0]);
  if (const auto* cross = std::get_if<CrossAttention>(&layer.kind))
    return of.scores(cross->heads, inputs[0][0], inputs[1][0]);
  if (const auto* relative = std::get_if<RelativeAttention>(&layer.kind))
    return of.scores(relative->heads, inputs[0][0], inputs[0][0]);
  return Bytes(0);
}

}  // namespace sluice
