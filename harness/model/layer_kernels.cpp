#include "harness/model/layer_kernels.h"

#include <algorithm>
#include <cmath>

#include "harness/model/kernel_times.h"

namespace sluice {

namespace {

// Of the pass that it is given, in order.
class Kernels {
 public:
  Kernels(PassKernels& pass, const Calibration& c, KnownProducts& known) : pass_(pass), c_(c), known_(known) {}

  Kernels& product(double m, double n, double k, double batch = 1) {
    const auto [found, is_new] = known_.try_emplace({batch, m, n, k});
    if (is_new) found->second = product_seconds(c_, found->first);
    return add(found->second);
  }
  Kernels& fused_attention(bool backward, AttentionWork work, double numbers) {
    work.bytes = static_cast<double>(c_.element.value) * numbers;
    return add(fused_attention_seconds(c_, backward, work));
  }
  Kernels& convolution(ConvolutionPass pass, const Convolution& v) { return add(convolution_seconds(c_, pass, v)); }
  // numbers: elements of tensors; bytes: of what has a size of its own (masks, positions).
  Kernels& stream(double numbers, double bytes = 0) {
    return add(stream_seconds(c_, static_cast<double>(c_.element.value) * numbers + bytes));
  }
  // The same, at another share of the bandwidth than that of streams.
  Kernels& stream_at(double share, double numbers) { return stream(numbers * (c_.stream_share / share)); }
  void repeat(const PassKernels& part, double times) {
    pass_.seconds += part.seconds * times;
    pass_.count += part.count * times;
  }

 private:
  Kernels& add(Seconds seconds) {
    pass_.seconds += seconds;
    pass_.count += 1;
    return *this;
  }
  PassKernels& pass_;
  const Calibration& c_;
  KnownProducts& known_;
};

double number(std::int64_t value) { return static_cast<double>(value); }

struct KernelsOf {
  std::span<const Shape> in;
  const Shape& out;
  double samples;
  const Calibration& c;
  const Storage& storage;
  KnownProducts& known;
  LayerKernels made{};

  Kernels forward() { return {made.forward, c, known}; }
  Kernels input_gradient() { return {made.input_gradient, c, known}; }
  Kernels weight_gradient() { return {made.weight_gradient, c, known}; }
  double x() const { return samples * number(elements(in[0])); }
  double y() const { return samples * number(elements(out)); }

  // The same in the forward and the input gradient.
  void stream(double numbers, double bytes = 0) {
    forward().stream(numbers, bytes);
    input_gradient().stream(numbers, bytes);
  }

  // rows x inputs times inputs x outputs.
  void multiply(double rows, double inputs, double outputs, bool bias) {
    forward().product(rows, outputs, inputs);
    input_gradient().product(rows, inputs, outputs);
    weight_gradient().product(outputs, inputs, rows);
    if (bias) weight_gradient().stream(rows * outputs);
  }

  // From images of one shape, [channels, height, width], to those of another.
  Convolution convolution(const Shape& from, const Shape& to, std::int64_t kernel, std::int64_t across,
                          std::int64_t stride) const {
    return {.images = samples,
            .in = number(from[0]),
            .height = number(from[1]),
            .width = number(from[2]),
            .out = number(to[0]),
            .out_height = number(to[1]),
            .out_width = number(to[2]),
            .kernel_height = number(kernel),
            .kernel_width = number(across),
            .stride = number(stride),
            .stride_across = number(stride)};
  }

  void operator()(const Linear& k) { multiply(x() / number(k.in), number(k.in), number(k.out), k.bias); }

  void operator()(const Conv2d& k) {
    Convolution v = convolution(in[0], out, k.kernel, k.kernel_across(), k.stride);
    v.groups = number(k.groups);
    convolve(v, k.bias);
  }
  // As the product that it is: no calibration has measured others.
  void operator()(const ConvNd& k) {
    std::int64_t stride = 1;
    for (const std::int64_t n : k.stride) stride *= n;
    Convolution v = convolution({in[0][0], elements(in[0]) / in[0][0], 1}, {out[0], elements(out) / out[0], 1},
                                elements(k.kernel), 1, 1);
    v.groups = number(k.groups), v.stride = number(stride);
    convolve(v, k.bias);
  }
  void convolve(const Convolution& v, bool bias) {
    forward().convolution(ConvolutionPass::forward, v);
    input_gradient().convolution(ConvolutionPass::input_gradient, v);
    weight_gradient().convolution(ConvolutionPass::weight_gradient, v);
    if (bias) weight_gradient().stream(y());
  }

  void operator()(const ConvTranspose2d& k) {
    const Convolution v = convolution(out, in[0], k.kernel, k.kernel, k.stride);
    forward().convolution(ConvolutionPass::input_gradient, v);
    input_gradient().convolution(ConvolutionPass::forward, v);
    weight_gradient().convolution(ConvolutionPass::weight_gradient, v);
    if (k.bias) weight_gradient().stream(y());
  }

  void operator()(const Pool2d& k) {
    const double positions = k.mode == Pool2d::Mode::max ? 8 * y() : 0;  // int64, as in StashSpec
    stream(x() + y(), positions);
  }

  void operator()(const Upsample&) { stream(x() + y()); }

  void operator()(const InstanceNorm&) {
    forward().stream_at(c.norm_share, 2 * x());
    // Sums over x and dy; then dx from both.
    input_gradient().stream_at(c.norm_share, 2 * x()).stream_at(c.norm_share, 3 * x());
  }
  void normalise(std::int64_t features) {
    (*this)(InstanceNorm{});
    weight_gradient().stream(4 * number(features));  // the sums are there
  }
  void operator()(const BatchNorm& k) { normalise(k.features); }
  void operator()(const GroupNorm& k) { normalise(k.features); }
  void operator()(const LayerNorm& k) { normalise(k.features); }
  void operator()(const RmsNorm& k) { normalise(k.features); }

  void operator()(const Activation&) {
    forward().stream_at(c.activation_share, 2 * x());
    input_gradient().stream_at(c.activation_share, 3 * x());
  }
  void operator()(const Dropout& k) {
    const double mask = k.channels ? samples * number(in[0][0]) : x();
    stream(2 * x(), mask);
  }
  void operator()(const Embedding& k) {
    forward().stream(2 * y());
    weight_gradient().stream(3 * y());  // rows are read, added to and written
    if (!c.is_16_bit()) return;
    weight_gradient().stream(0, number(k.vocabulary) * number(k.width) * number(storage.weight.value));  // zeros
  }
  // A micro-batch's gradient is added to that of earlier ones: in 16 bit by a kernel of its own, in fp32 by the product
  // that makes it (Megatron-LM's fused accumulation), unless nothing multiplies.
  void accumulate(std::int64_t parameters, bool looks_up) {
    if (parameters == 0 || !c.is_16_bit() || (storage.gradient > Bytes(2) && !looks_up)) return;
    weight_gradient().stream(0, number(parameters) * number((storage.weight + 2 * storage.gradient).value));
  }
  void operator()(const PositionEmbedding&) {  // the input gradient is the output's
    forward().stream(2 * x() + x() / samples);
    weight_gradient().stream(x() + x() / samples);
  }
  void operator()(const PatchEmbedding& k) {
    const double inputs = number(k.channels) * number(k.patch) * number(k.patch), width = number(k.width);
    forward().stream(2 * x());
    multiply(y() / width, inputs, width, true);
    input_gradient().stream(2 * x());
    weight_gradient().stream(2 * x());
  }
  void operator()(const ClassToken& k) {
    stream(x() + y());
    weight_gradient().stream(samples * number(k.width));
  }

  // gates: what the element-wise part of a step reads and writes, in hidden states: four gates, the cell before and
  // after it and the hidden state; backward the gradients of all these besides.
  void lstm(double steps, double width, double hidden) {
    constexpr double forward_states = 12, backward_states = 16;
    multiply(samples * steps, width, 4 * hidden, true);
    weight_gradient().product(4 * hidden, hidden, samples * steps);
    LayerKernels step;
    Kernels(step.forward, c, known).product(samples, 4 * hidden, hidden).stream(forward_states * samples * hidden);
    Kernels(step.input_gradient, c, known)
        .stream(backward_states * samples * hidden)
        .product(samples, hidden, 4 * hidden);
    forward().repeat(step.forward, steps);
    input_gradient().repeat(step.input_gradient, steps);
  }
  void operator()(const LstmCell& k) { lstm(1, number(k.in), number(k.hidden)); }
  void operator()(const Lstm& k) { lstm(number(in[0][0]), number(k.in), number(k.hidden)); }

  // In 16 bit, `queries` positions attend to `keys`, in `heads` of `width` each, `shared` to a key and value head.
  void attend_in_16_bit(double queries, double keys, double heads, double width, bool causal, double shared = 1) {
    const double each = samples * heads, output = each * queries * width;
    const double inputs = each * (queries + 2 * keys / shared) * width;
    forward().stream(2 * inputs);
    input_gradient().stream(2 * output);
    if (storage.attention == AttentionScores::fused && c.attention) {
      constexpr double kMaskBlock = 256;  // pairs are skipped in blocks: half of one a row is computed for nothing
      const double pairs = each * queries * (causal ? std::min(keys, (keys + kMaskBlock) / 2) : keys);
      const AttentionWork work{.pairs = pairs, .width = width, .keys = keys};
      forward().fused_attention(false, work, inputs + output);
      input_gradient().stream(2 * output).fused_attention(true, work, 2 * inputs + 2 * output);
    } else {
      const double pairs = each * queries * keys;
      const bool drops = storage.attention == AttentionScores::kept_with_dropout;
      forward().product(queries, keys, width, each).stream(2 * pairs);
      if (drops) forward().stream(2 * pairs, pairs);
      forward().product(queries, width, keys, each);
      input_gradient().product(queries, keys, width, each).product(keys, width, queries, each);
      if (drops) input_gradient().stream(2 * pairs, pairs);
      input_gradient().stream(3 * pairs).product(queries, width, keys, each).product(keys, width, queries, each);
    }
    forward().stream(2 * output);
    input_gradient().stream(2 * inputs);
  }

  // `queries` positions attend to `keys`, in `heads` of `width` each.
  void attend(double queries, double keys, double heads, double width) {
    const double each = samples * heads, pairs = each * queries * keys;
    const auto probabilities = [&](Kernels kernels) {
      kernels.product(queries, keys, width, each).stream(2 * pairs).stream(2 * pairs);
    };
    probabilities(forward());
    forward().product(queries, width, keys, each);
    probabilities(input_gradient());
    input_gradient()
        .product(queries, keys, width, each)   // of the probabilities
        .product(keys, width, queries, each)   // of v
        .stream(3 * pairs)                     // through the softmax
        .stream(3 * pairs)                     // and the scaling
        .product(queries, width, keys, each)   // of q
        .product(keys, width, queries, each);  // of k
  }
  void operator()(const Attention& k) {
    const double steps = number(in[0][0]), rows = samples * steps;
    const double width = number(k.width), inner = number(k.heads_width()), heads = number(k.heads);
    const double kv = number(k.kv_width());
    multiply(rows, width, inner + 2 * kv, k.qkv_bias);
    if (k.rotary > 0) stream(2 * rows * (inner + kv));  // q and k
    if (c.is_16_bit())
      attend_in_16_bit(steps, steps, heads, inner / heads, k.causal, inner / kv);
    else
      attend(steps, steps, heads, inner / heads);
    multiply(rows, inner, width, k.proj_bias);
  }
  void operator()(const CrossAttention& k) {
    const double queries = number(in[0][0]), keys = number(in[1][0]);
    const double width = number(k.width), inner = number(k.heads_width()), heads = number(k.heads);
    multiply(samples * queries, width, inner, k.bias);
    multiply(samples * keys, number(k.memory), 2 * inner, k.bias);
    if (c.is_16_bit())
      attend_in_16_bit(queries, keys, heads, inner / heads, false);
    else
      attend(queries, keys, heads, inner / heads);
    multiply(samples * queries, inner, width, k.bias);
  }

  void operator()(const RelativeAttention& k) {
    const double steps = number(in[0][0]), rows = samples * steps, distances = 2 * steps - 1;
    const double width = number(k.width), inner = number(k.heads_width()), heads = number(k.heads);
    const double each = samples * heads, head = inner / heads, pairs = each * steps * steps;
    multiply(rows, width, 3 * inner, false);
    forward().product(distances, inner, width).stream(2 * rows * inner).stream(2 * rows * inner);  // q with each bias
    weight_gradient().product(inner, width, distances);
    const auto of_distances = [&](Kernels kernels) {
      kernels.product(steps, distances, head, each).stream(3 * pairs);  // added to the scores of the contents
    };
    of_distances(forward());
    of_distances(input_gradient());
    input_gradient()
        .stream(3 * pairs)                        // from pairs to distances
        .product(steps, head, distances, each)    // of q
        .product(heads * distances, head, rows);  // of the distances
    attend(steps, steps, heads, head);
    multiply(rows, inner, width, false);
  }

  // Router, softmax over its scores; a copy that lays the rows of every expert together, batched products, f and the
  // gate as a kernel each, and a copy back that adds them up. W gathers both rows again.
  void operator()(const Experts& k) {
    const std::int64_t sample_tokens = elements(in[0]) / k.features;
    const double tokens = x() / number(k.features), scores = number(k.experts), experts = number(k.held_experts());
    const double features = number(k.features), hidden = number(k.hidden);
    const double rows = samples * number(k.rows_of(sample_tokens)), each = rows / experts;
    multiply(tokens, features, scores, false);
    forward().stream(2 * tokens * scores);
    input_gradient().stream(3 * tokens * scores);
    const auto gathered = [&](Kernels kernels) { kernels.stream(2 * rows * features); };
    gathered(forward()), gathered(input_gradient());
    if (k.spread > 1) {  // rows that arrive are laid together by expert, and apart again for the way back
      gathered(forward()), gathered(forward()), gathered(input_gradient()), gathered(input_gradient());
    } else {
      gathered(weight_gradient()), gathered(weight_gradient());
    }
    for (int inward = 0; inward < (k.gated ? 2 : 1); ++inward) {
      forward().product(each, hidden, features, experts);
      input_gradient().product(each, features, hidden, experts);
      weight_gradient().product(hidden, features, each, experts);
    }
    forward().product(each, features, hidden, experts);
    input_gradient().product(each, hidden, features, experts);
    weight_gradient().product(features, hidden, each, experts);
    forward().stream_at(c.activation_share, 2 * rows * hidden);
    input_gradient().stream_at(c.activation_share, 2 * rows * hidden).stream_at(c.activation_share, 3 * rows * hidden);
    if (k.gated) {
      forward().stream(3 * rows * hidden);
      input_gradient().stream(3 * rows * hidden).stream(3 * rows * hidden).stream(3 * rows * hidden);
    }
    input_gradient().stream(3 * rows * hidden).stream(2 * rows * hidden);  // p, and its gradient
    stream(rows * features + x());
  }

  void operator()(const SequencePool&) { stream(x() + y()); }
  void operator()(const Add&) {
    forward().stream(number(static_cast<std::int64_t>(in.size()) + 1) * y());
    for (std::size_t i = 1; i < in.size(); ++i) input_gradient().stream(2 * y());  // the first takes the output's
  }
  void operator()(const Multiply&) {
    const double factors = samples * number(elements(in[1]));
    forward().stream(2 * y() + factors);
    input_gradient().stream(2 * y() + factors);
    input_gradient().stream(3 * y());
    if (in[1] != in[0]) input_gradient().stream(y() + factors);  // summed for each channel
  }
  void operator()(const Concat&) {
    forward().stream(2 * y());
    for (const Shape& part : in) input_gradient().stream(2 * samples * number(elements(part)));
  }
  void operator()(const Flatten&) {}
  void operator()(const Permute&) { stream(2 * x()); }
  // One kernel a pass, which computes as a square product of as many FLOP does and streams inputs and output.
  void operator()(const Module& k) {
    double read = y();
    for (const Shape& input : in) read += samples * number(elements(input));
    const auto pass = [&](Kernels kernels, double flop) {
      const double side = std::cbrt(samples * flop / 2);
      kernels.stream(read);
      if (side > 0) kernels.product(side, side, side);
    };
    pass(forward(), k.forward_flop), pass(input_gradient(), k.input_gradient_flop);
    if (!k.weights.empty()) pass(weight_gradient(), k.weight_gradient_flop);
  }
  void operator()(const CrossEntropyLoss&) {  // logarithms of probabilities, and the sum
    if (c.is_16_bit()) {
      constexpr double kCast = 2 + 4, kRead = 4, kInPlace = 8;  // bytes a logit
      for (const double bytes : {kCast, kRead, kInPlace, kInPlace, kRead, kInPlace}) forward().stream(0, bytes * x());
      input_gradient().stream(0, kInPlace * x()).stream(0, kCast * x());
      return;
    }
    forward().stream(2 * x()).stream(samples);
    input_gradient().stream(2 * x());
  }
  void operator()(const BinaryCrossEntropyLoss&) {
    forward().stream(3 * x()).stream(x());
    input_gradient().stream(3 * x());
  }
  void operator()(const MseLoss&) {  // differences, and the sum of their squares
    forward().stream(3 * x()).stream(x());
    input_gradient().stream(2 * x());
  }
};

}  // namespace

LayerKernels layer_kernels(const LayerSpec& layer, std::span<const Shape> inputs, std::int64_t samples,
                           const Calibration& calibration, const Storage& storage, KnownProducts& known) {
  const Shape out = output_shape(layer, inputs);
  KernelsOf kernels{inputs, out, static_cast<double>(samples), calibration, storage, known};
  std::visit(kernels, layer.kind);
  kernels.accumulate(parameter_count(layer), std::holds_alternative<Embedding>(layer.kind));
  return kernels.made;
}

LayerKernels layer_kernels(const LayerSpec& layer, std::span<const Shape> inputs, std::int64_t samples,
                           const Calibration& calibration, const Storage& storage) {
  KnownProducts known;
  return layer_kernels(layer, inputs, samples, calibration, storage, known);
}

Seconds pass_seconds(const PassKernels& pass, Seconds host_gap, bool blocking_launches) {
  const Seconds host = host_gap * pass.count;
  return blocking_launches ? pass.seconds + host : std::max(pass.seconds, host);
}

}  // namespace sluice
