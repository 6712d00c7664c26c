// Positions of a sequence, and a sequence to one vector.
#include "harness/exec/torch/layers/layers.h"

namespace sluice {
namespace {

class PositionEmbeddingLayer final : public Layer {
 public:
  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash*) override {
    return in[0] + weights[0].narrow(0, 0, in[0].size(1));
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
      gradients[0].narrow(0, 0, dy.size(1)).add_(dy.sum(0));
    }
    clear(stashes);
  }
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

  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor>,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    std::vector<at::Tensor> dx(2);
    if (needs_input[0]) dx[0] = at::bmm(shares(stash.kept[0], dy).transpose(1, 2), dy.unsqueeze(1));
    stash.kept.clear();
    return dx;
  }

 private:
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
std::unique_ptr<Layer> make(const SequencePool& spec) { return std::make_unique<SequencePoolLayer>(spec.mode); }

}  // namespace sluice
