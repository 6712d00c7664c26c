// Self-attention by the distances of positions (RelativeAttention in harness/model/layer_spec.h). The probabilities are
// never kept: the backward computes them again from the rows' log-sum-exp, as in layers_attention.cpp.
#include <cmath>

#include "harness/exec/torch/layers/layers.h"

namespace sluice {
namespace {

// The sinusoids of the distances t - 1, t - 2, ..., -(t - 1): sines, then cosines, of distance / 10000^(2 i / width).
// [2 t - 1, width].
at::Tensor sinusoids(std::int64_t steps, std::int64_t width, const at::TensorOptions& options) {
  const at::TensorOptions exact = options.dtype(at::kDouble);
  const at::Tensor distances = at::arange(steps - 1, -steps, -1, exact);
  const at::Tensor speeds = at::pow(10000.0, at::arange(0, width, 2, exact) / -static_cast<double>(width));
  const at::Tensor angles = at::outer(distances, speeds);
  return at::cat({angles.sin(), angles.cos()}, 1).to(options);
}

// Of scores [batch, heads, t, 2 t - 1] by distance, those of the pairs of positions, [batch, heads, t, t]: a view, in
// which (i, j) is the element (i, t - 1 - i + j).
at::Tensor of_pairs(const at::Tensor& by_distance) {
  const std::int64_t steps = by_distance.size(2), distances = by_distance.size(3);
  return by_distance.as_strided({by_distance.size(0), by_distance.size(1), steps, steps},
                                {by_distance.size(1) * steps * distances, steps * distances, distances - 1, 1},
                                steps - 1);
}

class RelativeAttentionLayer final : public Layer {
 public:
  explicit RelativeAttentionLayer(const RelativeAttention& spec) : spec_(spec) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash* stash) override {
    const at::Tensor& x = in[0];
    at::Tensor rows = as_rows(x);
    at::Tensor qkv = affine(rows, weights[0], nullptr);
    const Parts parts{
        heads_of(qkv, x.size(0), 3),
        affine(sinusoids(x.size(1), spec_.width, x.options()), weights[1], nullptr),
        at::stack({weights[2], weights[3]}),
    };
    at::Tensor scores = scores_of(parts);
    at::Tensor log_sum_exp = scores.logsumexp(-1);
    at::Tensor output = at::matmul(scores.sub_(log_sum_exp.unsqueeze(-1)).exp_(), parts.heads[2]);
    at::Tensor y = affine(joined(output), weights[4], nullptr).view(x.sizes());
    if (stash)
      stash->kept = {std::move(rows),        std::move(qkv),     std::move(output),
                     std::move(log_sum_exp), parts.of_distances, parts.biases};
    return y;
  }

  // Keeps {x, d qkv, heads' output, dy} as rows and {d projected distances, d biases} for W.
  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    const std::int64_t batch = dy.size(0);
    at::Tensor dy_rows = as_rows(dy);
    const Parts parts{heads_of(stash.kept[1], batch, 3), stash.kept[4], stash.kept[5]};
    const at::Tensor &k = parts.heads[1], &v = parts.heads[2], &output = stash.kept[2];
    const at::Tensor d_output = heads_of(product(dy_rows, weights[4]), batch, 1)[0];
    const at::Tensor probabilities = scores_of(parts).sub_(stash.kept[3].unsqueeze(-1)).exp_();
    // d softmax: p (dp - sum p dp), and sum p dp = dy . output, row by row.
    const at::Tensor weighted = (d_output * output).sum(-1, /*keepdim=*/true);
    const at::Tensor d_scores =
        at::matmul(d_output, v.transpose(-2, -1)).sub_(weighted).mul_(probabilities).mul_(scale());
    at::Tensor by_distance = at::zeros({batch, spec_.heads, dy.size(1), 2 * dy.size(1) - 1}, dy.options());
    of_pairs(by_distance).copy_(d_scores);
    const at::Tensor d_content = at::matmul(d_scores, k);
    const at::Tensor d_position = at::matmul(by_distance, distances(parts));
    const at::Tensor d_k = at::matmul(d_scores.transpose(-2, -1), with_bias(parts, 0));
    const at::Tensor d_v = at::matmul(probabilities.transpose(-2, -1), d_output);
    at::Tensor d_qkv = at::cat({joined(at::add(d_content, d_position)), joined(d_k), joined(d_v)}, 1);
    // [heads, 2 t - 1, head width], summed over the micro-batch.
    const at::Tensor d_distances =
        at::matmul(by_distance.transpose(-2, -1), with_bias(parts, 1)).sum(0).transpose(0, 1).flatten(1);
    at::Tensor d_biases = at::stack({joined(d_content).sum(0), joined(d_position).sum(0)});
    std::vector<at::Tensor> dx(1);
    if (needs_input[0]) dx[0] = product(d_qkv, weights[0]).view(dy.sizes());
    stash.kept = {stash.kept[0],      std::move(d_qkv),         joined(output),
                  std::move(dy_rows), d_distances.contiguous(), std::move(d_biases)};
    return dx;
  }

  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    add_affine_gradients(stacked(stashes, 1), stacked(stashes, 0), gradients[0], nullptr);
    add_affine_gradients(stacked(stashes, 3), stacked(stashes, 2), gradients[4], nullptr);
    for (const LayerStash* stash : stashes) {
      const at::Tensor &d_distances = stash->kept[4], &d_biases = stash->kept[5];
      const std::int64_t steps = (d_distances.size(0) + 1) / 2;
      add_affine_gradients(d_distances, sinusoids(steps, spec_.width, d_distances.options()), gradients[1], nullptr);
      gradients[2].add_(d_biases[0]);
      gradients[3].add_(d_biases[1]);
    }
    clear(stashes);
  }

 private:
  // A micro-batch's queries, keys and values [batch, heads, steps, head width]; the projected distances [2 steps - 1,
  // inner]; the biases of contents and positions [2, inner].
  struct Parts {
    std::vector<at::Tensor> heads;
    at::Tensor of_distances, biases;
  };

  double scale() const {
    return std::sqrt(static_cast<double>(spec_.heads) / static_cast<double>(spec_.heads_width()));
  }

  std::vector<at::Tensor> heads_of(const at::Tensor& rows, std::int64_t batch, std::int64_t parts) const {
    return rows.view({batch, -1, parts, spec_.heads, rows.size(1) / (parts * spec_.heads)})
        .permute({2, 0, 3, 1, 4})
        .unbind(0);
  }
  // [batch, heads, steps, head width] -> [batch steps, inner].
  static at::Tensor joined(const at::Tensor& heads) {
    return heads.transpose(1, 2).reshape({-1, heads.size(1) * heads.size(3)});
  }
  // [heads, 2 steps - 1, head width].
  at::Tensor distances(const Parts& parts) const {
    return parts.of_distances.view({parts.of_distances.size(0), spec_.heads, -1}).transpose(0, 1);
  }
  at::Tensor with_bias(const Parts& parts, int bias) const {
    return at::add(parts.heads[0], parts.biases[bias].view({spec_.heads, 1, -1}));
  }

  at::Tensor scores_of(const Parts& parts) const {
    at::Tensor scores = at::matmul(with_bias(parts, 0), parts.heads[1].transpose(-2, -1));
    const at::Tensor by_distance = at::matmul(with_bias(parts, 1), distances(parts).transpose(-2, -1)).contiguous();
    return scores.add_(of_pairs(by_distance)).mul_(scale());
  }

  RelativeAttention spec_;
};

}  // namespace

std::unique_ptr<Layer> make(const RelativeAttention& spec) { return std::make_unique<RelativeAttentionLayer>(spec); }

}  // namespace sluice
