// Positions of a sequence, an image as a sequence, and a sequence to one vector.
#include "harness/exec/torch/layers/layers.h"

namespace sluice {
namespace {

class PositionEmbeddingLayer final : public Layer {
 public:
  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode& mode, bool, LayerStash*) override {
    return in[0] + weights[0].narrow(0, mode.chunk.first, in[0].size(1));
  }

  // Keeps dy for W.
  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor>,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    stash.kept = {dy};
    std::vector<at::Tensor> dx(1);
    if (needs_input[0]) dx[0] = dy;
    return dx;
  }

  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    for (LayerStash* stash : stashes) {
      const at::Tensor& dy = stash->kept[0];
      gradients[0].narrow(0, stash->chunk.first, dy.size(1)).add_(dy.sum(0));
    }
    clear(stashes);
  }
};

class PatchEmbeddingLayer final : public Layer {
 public:
  explicit PatchEmbeddingLayer(const PatchEmbedding& spec) : spec_(spec) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash* stash) override {
    if (stash) stash->kept.push_back(in[0]);
    const at::Tensor rows = patches(in[0]);
    return affine(rows, weights[0].view({spec_.width, rows.size(1)}), &weights[1])
        .view({in[0].size(0), -1, spec_.width});
  }

  // Keeps {x, dy} for W.
  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    std::vector<at::Tensor> dx(1);
    if (needs_input[0]) {
      const at::Tensor& x = stash.kept[0];
      const std::int64_t p = spec_.patch, c = spec_.channels;
      dx[0] = product(as_rows(dy), weights[0].view({spec_.width, -1}))
                  .view({x.size(0), x.size(2) / p, x.size(3) / p, c, p, p})
                  .permute({0, 3, 1, 4, 2, 5})
                  .reshape(x.sizes());
    }
    stash.kept.push_back(dy);
    return dx;
  }

  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    const at::Tensor rows = patches(stacked(stashes, 0));
    add_affine_gradients(as_rows(stacked(stashes, 1)), rows, gradients[0].view({spec_.width, rows.size(1)}),
                         &gradients[1]);
    clear(stashes);
  }

 private:
  // A row for every patch: [batch patches, channels patch patch].
  at::Tensor patches(const at::Tensor& x) const {
    const std::int64_t p = spec_.patch, c = spec_.channels;
    return x.reshape({x.size(0), c, x.size(2) / p, p, x.size(3) / p, p})
        .permute({0, 2, 4, 1, 3, 5})
        .reshape({-1, c * p * p});
  }

  PatchEmbedding spec_;
};

class ClassTokenLayer final : public Layer {
 public:
  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash*) override {
    const at::Tensor& x = in[0];
    return at::cat({weights[0].expand({x.size(0), 1, x.size(2)}), x}, 1);
  }

  // Keeps the token's gradient for W.
  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor>,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    stash.kept = {dy.select(1, 0).sum(0)};
    std::vector<at::Tensor> dx(1);
    if (needs_input[0]) dx[0] = dy.narrow(1, 1, dy.size(1) - 1).contiguous();
    return dx;
  }

  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    for (LayerStash* stash : stashes) gradients[0].add_(stash->kept[0]);
    clear(stashes);
  }
};

class WholeSequencePoolLayer final : public WeightlessLayer {
 public:
  explicit WholeSequencePoolLayer(SequencePool::Mode mode) : mode_(mode) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor&, const ForwardMode&,
                     bool, LayerStash*) override {
    steps_ = in[0].size(1);
    return mode_ == SequencePool::Mode::mean ? in[0].mean(1) : in[0].select(1, position()).clone();
  }

 private:
  at::Tensor gradient(const at::Tensor& dy, std::size_t, LayerStash&) override {
    const std::vector<std::int64_t> shape{dy.size(0), steps_, dy.size(1)};
    if (mode_ == SequencePool::Mode::mean) return at::div(dy, steps_).unsqueeze(1).expand(shape).contiguous();
    at::Tensor dx = at::zeros(shape, dy.options());
    dx.select(1, position()).copy_(dy);
    return dx;
  }
  std::int64_t position() const { return mode_ == SequencePool::Mode::first ? 0 : steps_ - 1; }

  SequencePool::Mode mode_;
  std::int64_t steps_ = 0;  // the same for every micro-batch
};

// Padding stands at the end, so the last real token is the one at number (real tokens) - 1.
class SequencePoolLayer final : public WeightlessLayer {
 public:
  explicit SequencePoolLayer(SequencePool::Mode mode) : mode_(mode) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor>, const at::Tensor&, const ForwardMode&,
                     bool, LayerStash* stash) override {
    if (stash) stash->kept.push_back(in[1]);
    return at::bmm(shares(in[1], in[0]), in[0]).squeeze(1);
  }

 private:
  at::Tensor gradient(const at::Tensor& dy, std::size_t, LayerStash& stash) override {
    return at::bmm(shares(stash.kept[0], dy).transpose(1, 2), dy.unsqueeze(1));
  }

  // What each position contributes, [batch, 1, steps].
  at::Tensor shares(const at::Tensor& ids, const at::Tensor& like) const {
    const at::Tensor real = ids.ne(0);
    const at::Tensor count = real.sum(1, /*keepdim=*/true).clamp_min_(1);
    if (mode_ == SequencePool::Mode::mean) return real.to(like.scalar_type()).div_(count).unsqueeze(1);
    return at::zeros(ids.sizes(), like.options()).scatter_(1, count - 1, 1.0).unsqueeze(1);
  }

  SequencePool::Mode mode_;
};

}  // namespace

std::unique_ptr<Layer> make(const PositionEmbedding&) { return std::make_unique<PositionEmbeddingLayer>(); }
std::unique_ptr<Layer> make(const PatchEmbedding& spec) { return std::make_unique<PatchEmbeddingLayer>(spec); }
std::unique_ptr<Layer> make(const ClassToken&) { return std::make_unique<ClassTokenLayer>(); }
std::unique_ptr<Layer> make(const SequencePool& spec, std::span<const Shape> input_shapes) {
  if (input_shapes.size() == 1) return std::make_unique<WholeSequencePoolLayer>(spec.mode);
  return std::make_unique<SequencePoolLayer>(spec.mode);
}

}  // namespace sluice
