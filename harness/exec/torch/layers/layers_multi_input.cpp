// Layers with several inputs (sum, concatenation), the flattening view, and the losses that end a model.
#include <ATen/core/Reduction.h>

#include <numeric>

#include "harness/exec/torch/layers/layers.h"

namespace sluice {
namespace {

class AddLayer final : public WeightlessLayer {
 public:
  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor&, const ForwardMode&,
                     bool, LayerStash*) override {
    // A copy, because a later layer may write over what it takes for a tensor of our own.
    if (in.size() == 1) return in[0].clone();
    at::Tensor y = at::add(in[0], in[1]);
    for (const at::Tensor& x : in.subspan(2)) y.add_(x);
    return y;
  }

 private:
  at::Tensor gradient(const at::Tensor& dy, std::size_t, LayerStash&) override { return dy; }
};

class MultiplyLayer final : public WeightlessLayer {
 public:
  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor&, const ForwardMode&,
                     bool, LayerStash* stash) override {
    if (stash) stash->kept = {in[0], in[1]};
    return at::mul(in[0], in[1]);
  }

 private:
  at::Tensor gradient(const at::Tensor& dy, std::size_t input, LayerStash& stash) override {
    const at::Tensor dx = at::mul(dy, stash.kept[1 - input]);
    return stash.kept[input].sizes() == dx.sizes() ? dx : dx.sum({2, 3}, /*keepdim=*/true);
  }
};

class ConcatLayer final : public WeightlessLayer {
 public:
  ConcatLayer(const Concat& spec, std::span<const Shape> input_shapes) : dimension_(spec.axis + 1) {
    for (const Shape& shape : input_shapes) {
      widths_.push_back(shape[spec.axis]);
    }
  }

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor&, const ForwardMode&,
                     bool, LayerStash*) override {
    return at::cat(at::TensorList(in.data(), in.size()), dimension_);
  }

 private:
  at::Tensor gradient(const at::Tensor& dy, std::size_t input, LayerStash&) override {
    const std::int64_t start =
        std::accumulate(widths_.begin(), widths_.begin() + static_cast<std::ptrdiff_t>(input), std::int64_t{0});
    // A copy: a slice would keep the whole gradient alive until the last weight gradient.
    return dy.narrow(dimension_, start, widths_[input]).clone(at::MemoryFormat::Contiguous);
  }

  std::int64_t dimension_;
  std::vector<std::int64_t> widths_;
};

class FlattenLayer final : public WeightlessLayer {
 public:
  explicit FlattenLayer(const Shape& shape) : shape_{-1} { shape_.insert(shape_.end(), shape.begin(), shape.end()); }

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor&, const ForwardMode&,
                     bool, LayerStash*) override {
    return in[0].reshape({in[0].size(0), -1});
  }

 private:
  at::Tensor gradient(const at::Tensor& dy, std::size_t, LayerStash&) override { return dy.reshape(shape_); }

  std::vector<std::int64_t> shape_;  // of the input, batch dimension first
};

class PermuteLayer final : public WeightlessLayer {
 public:
  explicit PermuteLayer(const Permute& spec) : there_{0}, back_(spec.axes.size() + 1, 0) {
    for (const std::int64_t axis : spec.axes) {
      back_[static_cast<std::size_t>(axis + 1)] = static_cast<std::int64_t>(there_.size());
      there_.push_back(axis + 1);
    }
  }

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor&, const ForwardMode&,
                     bool, LayerStash*) override {
    return in[0].permute(there_).clone(at::MemoryFormat::Contiguous);
  }

 private:
  at::Tensor gradient(const at::Tensor& dy, std::size_t, LayerStash&) override {
    return dy.permute(back_).clone(at::MemoryFormat::Contiguous);
  }

  std::vector<std::int64_t> there_, back_;  // batch dimension first
};

// Cross entropy of one class a sample.
class ClassLossLayer final : public WeightlessLayer {
 public:
  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor& target,
                     const ForwardMode&, bool, LayerStash* stash) override {
    at::Tensor log_p = at::log_softmax(in[0], 1);
    at::Tensor rows = target.reshape({-1});
    auto [sum, weight] = at::nll_loss_forward(log_p, rows, {}, at::Reduction::Sum, kIgnored);
    sum.div_(log_p.size(0));
    if (stash) stash->kept = {std::move(log_p), std::move(rows)};
    weight_ = std::move(weight);
    return sum;
  }

 private:
  at::Tensor gradient(const at::Tensor& dy, std::size_t, LayerStash& stash) override {
    const at::Tensor& log_p = stash.kept[0];
    const at::Tensor d_log_p =
        at::nll_loss_backward(dy / log_p.size(0), log_p, stash.kept[1], {}, at::Reduction::Sum, kIgnored, weight_);
    return at::_log_softmax_backward_data(d_log_p, log_p, 1, log_p.scalar_type());
  }

  static constexpr std::int64_t kIgnored = -100;
  at::Tensor weight_;  // asked for by the backward, read only when it takes means
};

// Cross entropy at every position of a sequence: the mean over a sample's positions that have a
// target, then the mean over the samples.
class SequenceLossLayer final : public WeightlessLayer {
 public:
  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor& target,
                     const ForwardMode& mode, bool, LayerStash* stash) override {
    at::Tensor log_p = at::log_softmax(as_rows(in[0]), 1);
    const at::Tensor picked = log_p.gather(1, column(target)).squeeze_(1);
    const bool whole = mode.chunk.count == 1;
    at::Tensor counts = real_positions(whole ? target : mode.whole_target, log_p);
    const at::Tensor loss = picked.mul(loss_shares(target, counts, mode.chunk)).sum().neg_();
    if (stash) {
      stash->kept = {std::move(log_p), target};
      if (!whole) stash->kept.push_back(std::move(counts));
    }
    return loss;
  }

 private:
  // d logits = (softmax - one at the target) times the position's share of the loss.
  at::Tensor gradient(const at::Tensor& dy, std::size_t, LayerStash& stash) override {
    const at::Tensor &log_p = stash.kept[0], &target = stash.kept[1];
    at::Tensor d_logits = log_p.exp();
    d_logits.scatter_add_(1, column(target), at::full({1, 1}, -1.0, log_p.options()).expand({log_p.size(0), 1}));
    const at::Tensor counts = stash.kept.size() > 2 ? stash.kept[2] : real_positions(target, log_p);
    d_logits.mul_((loss_shares(target, counts, stash.chunk) * dy).unsqueeze(1));
    return d_logits.view({target.size(0), target.size(1), -1});
  }

  // Positions without a target have a share of 0: which class stands there does not matter.
  static at::Tensor column(const at::Tensor& target) { return target.reshape({-1, 1}).clamp_min(0); }
};

// A mean over elements whose derivative is `factor` times the difference that its forward keeps.
class DifferenceLoss : public WeightlessLayer {
 protected:
  explicit DifferenceLoss(double factor) : factor_(factor) {}

 private:
  at::Tensor gradient(const at::Tensor& dy, std::size_t, LayerStash& stash) override {
    const at::Tensor difference = std::move(stash.kept[0]);
    const auto count = static_cast<double>(difference.numel());
    return difference.mul_(dy * (factor_ * stash.chunk.weight() / count));
  }

  double factor_;
};

class MseLayer final : public DifferenceLoss {
 public:
  MseLayer() : DifferenceLoss(2) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor& target,
                     const ForwardMode& mode, bool, LayerStash* stash) override {
    at::Tensor difference = at::sub(in[0], target.reshape(in[0].sizes()));
    at::Tensor loss = difference.square().mean();
    if (mode.chunk.count > 1) loss.mul_(mode.chunk.weight());
    if (stash) stash->kept.push_back(std::move(difference));
    return loss;
  }
};

// Keeps the probability less the target, which is the derivative of an element's loss.
class BinaryLossLayer final : public DifferenceLoss {
 public:
  BinaryLossLayer() : DifferenceLoss(1) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor& target,
                     const ForwardMode& mode, bool, LayerStash* stash) override {
    const at::Tensor wanted = target.reshape(in[0].sizes());
    at::Tensor loss = at::binary_cross_entropy_with_logits(in[0], wanted);
    if (mode.chunk.count > 1) loss.mul_(mode.chunk.weight());
    if (stash) stash->kept.push_back(at::sigmoid(in[0]).sub_(wanted));
    return loss;
  }
};

}  // namespace

at::Tensor real_positions(const at::Tensor& target, const at::Tensor& like) {
  return target.ge(0).to(like.scalar_type()).sum(1, /*keepdim=*/true).clamp_min_(1);
}

at::Tensor loss_shares(const at::Tensor& target, const at::Tensor& counts, const SequenceChunk& chunk) {
  at::Tensor shares = target.ge(0).to(counts.scalar_type()).div_(counts).div_(target.size(0));
  if (chunk.count > 1) shares.mul_(chunk.count);
  return shares.view({-1});
}

std::unique_ptr<Layer> make(const Add&) { return std::make_unique<AddLayer>(); }
std::unique_ptr<Layer> make(const Multiply&) { return std::make_unique<MultiplyLayer>(); }
std::unique_ptr<Layer> make(const Concat& spec, std::span<const Shape> input_shapes) {
  return std::make_unique<ConcatLayer>(spec, input_shapes);
}
std::unique_ptr<Layer> make(const Flatten&, std::span<const Shape> input_shapes) {
  return std::make_unique<FlattenLayer>(input_shapes[0]);
}
std::unique_ptr<Layer> make(const Permute& spec) { return std::make_unique<PermuteLayer>(spec); }
std::unique_ptr<Layer> make(const CrossEntropyLoss&, std::span<const Shape> input_shapes) {
  if (input_shapes[0].size() == 1) return std::make_unique<ClassLossLayer>();
  return std::make_unique<SequenceLossLayer>();
}
std::unique_ptr<Layer> make(const MseLoss&) { return std::make_unique<MseLayer>(); }
std::unique_ptr<Layer> make(const BinaryCrossEntropyLoss&) { return std::make_unique<BinaryLossLayer>(); }

}  // namespace sluice
