// Linear, Embedding, activations and dropout.
#include <ATen/CPUGeneratorImpl.h>

#include "harness/base/splitmix64.h"
#include "harness/exec/torch/layers/layers.h"

namespace sluice {
namespace {

class LinearLayer final : public Layer {
 public:
  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash* stash) override {
    const at::Tensor& x = in[0];
    const at::Tensor* bias = weights.size() > 1 ? &weights[1] : nullptr;
    if (x.dim() == 2) {
      at::Tensor y = affine(x, weights[0], bias);
      if (stash) stash->kept.push_back(x);
      return y;
    }
    at::Tensor rows = as_rows(x);
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = weights[0].size(0);
    at::Tensor y = affine(rows, weights[0], bias).view(shape);
    if (stash) stash->kept.push_back(std::move(rows));
    return y;
  }

  // Keeps {x, dy} for W.
  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    std::vector<at::Tensor> dx(1);
    at::Tensor rows = as_rows(dy);
    if (needs_input[0]) {
      dx[0] = product(rows, weights[0]);
      if (dy.dim() != 2) {
        std::vector<std::int64_t> shape = dy.sizes().vec();
        shape.back() = weights[0].size(1);
        dx[0] = dx[0].view(shape);
      }
    }
    stash.kept.push_back(std::move(rows));
    return dx;
  }

  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    const at::Tensor* bias = gradients.size() > 1 ? &gradients[1] : nullptr;
    if (stashes.size() == 1) {
      add_affine_gradients(stashes[0]->kept[1], stashes[0]->kept[0], gradients[0], bias);
    } else {
      add_affine_gradients(stacked(stashes, 1), stacked(stashes, 0), gradients[0], bias);
    }
    clear(stashes);
  }
};

class EmbeddingLayer final : public Layer {
 public:
  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash* stash) override {
    if (stash) stash->kept.push_back(in[0]);
    return at::embedding(weights[0], in[0]);
  }

  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor>, const std::vector<bool>&,
                                         LayerStash& stash) override {
    stash.kept.push_back(dy);
    return std::vector<at::Tensor>(1);  // token ids have no gradient
  }

  // Adds only the rows that were read: a dense gradient of a large vocabulary would cost far more than the micro-batch.
  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    for (LayerStash* stash : stashes) {
      gradients[0].index_add_(0, stash->kept[0].reshape({-1}), as_rows(stash->kept[1]));
    }
    clear(stashes);
  }
};

// relu, relu6, leaky_relu, tanh and sigmoid keep their output, from which the derivative follows; the others keep their
// input.
class ActivationLayer final : public WeightlessLayer {
 public:
  explicit ActivationLayer(Activation::Kind kind) : kind_(kind) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor&, const ForwardMode&,
                     bool may_overwrite, LayerStash* stash) override {
    at::Tensor y = apply(in[0], may_overwrite);
    if (stash) stash->kept.push_back(backward_reads_output(Activation{kind_}) ? y : in[0]);
    return y;
  }

 private:
  at::Tensor apply(const at::Tensor& x, bool in_place) const {
    at::Tensor over = x;
    switch (kind_) {
      case Activation::Kind::relu:
        return in_place ? x.relu_() : x.relu();
      case Activation::Kind::tanh:
        return in_place ? x.tanh_() : x.tanh();
      case Activation::Kind::sigmoid:
        return in_place ? x.sigmoid_() : x.sigmoid();
      case Activation::Kind::gelu_tanh:
        return at::gelu(x, "tanh");
      case Activation::Kind::silu:
        return at::silu(x);
      case Activation::Kind::leaky_relu:
        return in_place ? at::leaky_relu_out(over, x, kLeakySlope) : at::leaky_relu(x, kLeakySlope);
      case Activation::Kind::relu6:
        return in_place ? over.clamp_(0, 6) : x.clamp(0, 6);
      case Activation::Kind::hardsigmoid:
        return at::hardsigmoid(x);
      case Activation::Kind::hardswish:
        return at::hardswish(x);
      case Activation::Kind::gelu:
        break;
    }
    return at::gelu(x);
  }

  at::Tensor gradient(const at::Tensor& dy, std::size_t, LayerStash& stash) override {
    const at::Tensor& kept = stash.kept[0];
    const bool in_place = is_sole_owner(dy) && dy.is_non_overlapping_and_dense();
    at::Tensor dx = in_place ? dy : at::Tensor();
    switch (kind_) {
      case Activation::Kind::relu:
        return in_place ? at::threshold_backward_out(dx, dy, kept, 0) : at::threshold_backward(dy, kept, 0);
      case Activation::Kind::tanh:
        return in_place ? at::tanh_backward_out(dx, dy, kept) : at::tanh_backward(dy, kept);
      case Activation::Kind::sigmoid:
        return in_place ? at::sigmoid_backward_out(dx, dy, kept) : at::sigmoid_backward(dy, kept);
      case Activation::Kind::gelu_tanh:
        return in_place ? at::gelu_backward_out(dx, dy, kept, "tanh") : at::gelu_backward(dy, kept, "tanh");
      case Activation::Kind::silu:
        return in_place ? at::silu_backward_out(dx, dy, kept) : at::silu_backward(dy, kept);
      case Activation::Kind::leaky_relu:
        return in_place ? at::leaky_relu_backward_out(dx, dy, kept, kLeakySlope, /*self_is_result=*/true)
                        : at::leaky_relu_backward(dy, kept, kLeakySlope, /*self_is_result=*/true);
      case Activation::Kind::relu6:
        return in_place ? at::hardtanh_backward_out(dx, dy, kept, 0, 6) : at::hardtanh_backward(dy, kept, 0, 6);
      case Activation::Kind::hardsigmoid:
        return in_place ? at::hardsigmoid_backward_out(dx, dy, kept) : at::hardsigmoid_backward(dy, kept);
      case Activation::Kind::hardswish:
        return at::hardswish_backward(dy, kept);
      case Activation::Kind::gelu:
        break;
    }
    return in_place ? at::gelu_backward_out(dx, dy, kept) : at::gelu_backward(dy, kept);
  }

  Activation::Kind kind_;
};

class DropoutLayer final : public WeightlessLayer {
 public:
  DropoutLayer(const Dropout& spec, int index, int parts, int part)
      : probability_(spec.probability), channels_(spec.channels), index_(index), parts_(parts), part_(part) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor&,
                     const ForwardMode& mode, bool, LayerStash* stash) override {
    // A copy, because a later layer may write over what it takes for a tensor of our own.
    if (!mode.training) return in[0].clone();
    const auto index = static_cast<std::uint64_t>(index_);
    // A part's mask is its part of the whole one, so that masks depend neither on chunks of sequences nor on the
    // devices that share a layer.
    std::vector<std::int64_t> shape = in[0].sizes().vec();
    const std::size_t divided = channels_ ? 1 : shape.size() - 1;
    const std::int64_t own = shape[divided];
    shape[divided] *= parts_;
    if (channels_) std::fill(shape.begin() + 2, shape.end(), 1);
    if (mode.chunk.count > 1) shape[1] = mode.chunk.whole;
    at::Tensor mask = at::empty(shape, at::kBool);
    const std::int64_t rows = mask.size(0) / mode.micro_batches;
    for (int m = 0; m < mode.micro_batches; ++m) {
      // Neighbouring seeds, layers and micro-batches have unrelated streams.
      const std::uint64_t layer_stream = splitmix64(splitmix64(mode.seed) + index);
      const std::uint64_t stream = splitmix64(layer_stream + static_cast<std::uint64_t>(mode.sequence + m));
      at::Generator generator = at::detail::createCPUGenerator(stream);
      mask.narrow(0, m * rows, rows).bernoulli_(1 - probability_, generator);
    }
    if (parts_ > 1) mask = mask.narrow(static_cast<std::int64_t>(divided), part_ * own, own).contiguous();
    if (mode.chunk.count > 1) mask = mask.narrow(1, mode.chunk.first, in[0].size(1)).clone();
    if (!in[0].is_cpu()) mask = mask.to(in[0].device());
    at::Tensor y = at::mul(in[0], mask).mul_(1 / (1 - probability_));
    if (stash) stash->kept.push_back(std::move(mask));
    return y;
  }

 private:
  at::Tensor gradient(const at::Tensor& dy, std::size_t, LayerStash& stash) override {
    return at::mul(dy, stash.kept[0]).mul_(1 / (1 - probability_));
  }

  double probability_;
  bool channels_;
  int index_, parts_, part_;
};

}  // namespace

std::unique_ptr<Layer> make(const Linear&) { return std::make_unique<LinearLayer>(); }
std::unique_ptr<Layer> make(const Embedding&) { return std::make_unique<EmbeddingLayer>(); }
std::unique_ptr<Layer> make(const Activation& spec) { return std::make_unique<ActivationLayer>(spec.kind); }
std::unique_ptr<Layer> make(const Dropout& spec, int index_in_model, int parts, int part) {
  return std::make_unique<DropoutLayer>(spec, index_in_model, parts, part);
}

}  // namespace sluice
