// Multi-head self-attention. The probabilities are never kept: the backward computes them again
// from the rows' log-sum-exp (Dao et al., FlashAttention, section 3).
#include <cmath>

#include "harness/exec/torch/layers.h"

namespace sluice {
namespace {

double scale_of(const at::Tensor& q) { return 1 / std::sqrt(static_cast<double>(q.size(-1))); }

at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, bool causal) {
  at::Tensor scores = at::matmul(q, k.transpose(-2, -1)).mul_(scale_of(q));
  if (causal) {
    const std::int64_t steps = q.size(-2);
    const at::Tensor later = at::ones({steps, steps}, q.options().dtype(at::kBool)).triu_(1);
    scores.masked_fill_(later, -INFINITY);
  }
  return scores;
}

class AttentionLayer final : public Layer {
 public:
  explicit AttentionLayer(const Attention& spec) : spec_(spec) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights,
                     const at::Tensor&, const ForwardMode&, bool, LayerStash* stash) override {
    const at::Tensor& x = in[0];
    at::Tensor rows = as_rows(x);
    at::Tensor qkv = affine(rows, weights[0], &weights[1]);
    const Heads heads = split(qkv, x.size(0));
    AttentionCore core = x.is_cpu() ? attend_flash(heads.q, heads.k, heads.v, spec_.causal)
                                    : attend_products(heads.q, heads.k, heads.v, spec_.causal);
    at::Tensor y = affine(joined(core.output), weights[2], &weights[3]).view(x.sizes());
    if (stash) {
      stash->kept = {std::move(rows), std::move(qkv), std::move(core.output),
                     std::move(core.log_sum_exp)};
    }
    return y;
  }

  // Keeps {x, d qkv, heads' output, dy} for W, all as rows.
  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input,
                                         LayerStash& stash) override {
    const std::int64_t batch = dy.size(0), steps = dy.size(1);
    at::Tensor dy_rows = as_rows(dy);
    const Heads heads = split(stash.kept[1], batch);
    const AttentionCore core{stash.kept[2], stash.kept[3]};
    const at::Tensor d_heads =
        at::mm(dy_rows, weights[2]).view({batch, steps, spec_.heads, head_width()}).transpose(1, 2);
    const AttentionGradients gradient =
        dy.is_cpu()
            ? attend_flash_backward(d_heads, heads.q, heads.k, heads.v, core, spec_.causal)
            : attend_products_backward(d_heads, heads.q, heads.k, heads.v, core, spec_.causal);
    at::Tensor d_qkv = at::cat({joined(gradient.q), joined(gradient.k), joined(gradient.v)}, 1);
    std::vector<at::Tensor> dx(1);
    if (needs_input[0]) dx[0] = at::mm(d_qkv, weights[0]).view(dy.sizes());
    stash.kept = {stash.kept[0], std::move(d_qkv), joined(core.output), std::move(dy_rows)};
    return dx;
  }

  void weight_gradient(std::span<LayerStash* const> stashes,
                       std::span<const at::Tensor> gradients) override {
    add_affine_gradients(stacked(stashes, 1), stacked(stashes, 0), gradients[0], &gradients[1]);
    add_affine_gradients(stacked(stashes, 3), stacked(stashes, 2), gradients[2], &gradients[3]);
    clear(stashes);
  }

 private:
  struct Heads {
    at::Tensor q, k, v;  // views [batch, heads, steps, head width] of qkv
  };

  std::int64_t head_width() const { return spec_.width / spec_.heads; }

  Heads split(const at::Tensor& qkv, std::int64_t batch) const {
    const at::Tensor all =
        qkv.view({batch, -1, 3, spec_.heads, head_width()}).permute({2, 0, 3, 1, 4});
    return {all.select(0, 0), all.select(0, 1), all.select(0, 2)};
  }

  // [batch, heads, steps, head width] -> [batch steps, width].
  at::Tensor joined(const at::Tensor& heads) const {
    return heads.transpose(1, 2).reshape({-1, spec_.width});
  }

  Attention spec_;
};

}  // namespace

AttentionCore attend_flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           bool causal) {
  auto [output, log_sum_exp] =
      at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, /*dropout_p=*/0.0, causal);
  return {std::move(output), std::move(log_sum_exp)};
}

AttentionGradients attend_flash_backward(const at::Tensor& dy, const at::Tensor& q,
                                         const at::Tensor& k, const at::Tensor& v,
                                         const AttentionCore& forward, bool causal) {
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      dy, q, k, v, forward.output, forward.log_sum_exp, /*dropout_p=*/0.0, causal);
  return {std::move(dq), std::move(dk), std::move(dv)};
}

AttentionCore attend_products(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              bool causal) {
  at::Tensor scores = scores_of(q, k, causal);
  at::Tensor log_sum_exp = scores.logsumexp(-1);
  const at::Tensor probabilities = scores.sub_(log_sum_exp.unsqueeze(-1)).exp_();
  at::Tensor output = at::matmul(probabilities, v);
  return {std::move(output), std::move(log_sum_exp)};
}

AttentionGradients attend_products_backward(const at::Tensor& dy, const at::Tensor& q,
                                            const at::Tensor& k, const at::Tensor& v,
                                            const AttentionCore& forward, bool causal) {
  const at::Tensor probabilities =
      scores_of(q, k, causal).sub_(forward.log_sum_exp.unsqueeze(-1)).exp_();
  // d softmax: p (dp - sum p dp), and sum p dp = dy . output, row by row.
  const at::Tensor weighted = (dy * forward.output).sum(-1, /*keepdim=*/true);
  const at::Tensor d_scores =
      at::matmul(dy, v.transpose(-2, -1)).sub_(weighted).mul_(probabilities).mul_(scale_of(q));
  return {at::matmul(d_scores, k), at::matmul(d_scores.transpose(-2, -1), q),
          at::matmul(probabilities.transpose(-2, -1), dy)};
}

std::unique_ptr<Layer> make(const Attention& spec) {
  return std::make_unique<AttentionLayer>(spec);
}

}  // namespace sluice
