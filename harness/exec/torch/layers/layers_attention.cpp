// Multi-head attention, of a sequence to itself and to another one. The probabilities are never kept: the backward
// computes them again from the rows' log-sum-exp (Dao et al., FlashAttention, section 3).
#include <cmath>

#include "harness/exec/torch/layers/layers.h"

namespace sluice {
namespace {

double scale_of(const at::Tensor& q) { return 1 / std::sqrt(static_cast<double>(q.size(-1))); }

at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, bool causal, const at::Tensor& key_ids) {
  at::Tensor scores = at::matmul(q, k.transpose(-2, -1)).mul_(scale_of(q));
  if (causal) {
    const std::int64_t steps = q.size(-2);
    const at::Tensor later = at::ones({steps, steps}, q.options().dtype(at::kBool)).triu_(1);
    scores.masked_fill_(later, -INFINITY);
  }
  if (key_ids.defined()) scores.masked_fill_(key_ids.eq(0).view({key_ids.size(0), 1, 1, key_ids.size(1)}), -INFINITY);
  return scores;
}

// What the flash kernel adds to the scores: nothing, or minus infinity at padding.
std::optional<at::Tensor> flash_mask(const at::Tensor& q, const at::Tensor& key_ids) {
  if (!key_ids.defined()) return std::nullopt;
  const std::int64_t batch = key_ids.size(0), steps = key_ids.size(1);
  return at::zeros({batch, 1, 1, steps}, q.options())
      .masked_fill_(key_ids.eq(0).view({batch, 1, 1, steps}), -INFINITY)
      .expand({batch, 1, q.size(2), steps});
}

AttentionCore attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
                     const at::Tensor& key_ids) {
  return q.is_cpu() ? attend_flash(q, k, v, causal, key_ids) : attend_products(q, k, v, causal, key_ids);
}
AttentionGradients attend_backward(const at::Tensor& dy, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const AttentionCore& forward, bool causal, const at::Tensor& key_ids) {
  return q.is_cpu() ? attend_flash_backward(dy, q, k, v, forward, causal, key_ids)
                    : attend_products_backward(dy, q, k, v, forward, causal, key_ids);
}

// Rows of `parts` projections side by side -> as many views [batch, heads, steps, head width].
std::vector<at::Tensor> split_heads(const at::Tensor& rows, std::int64_t batch, std::int64_t parts,
                                    std::int64_t heads) {
  const std::int64_t head_width = rows.size(1) / (parts * heads);
  return rows.view({batch, -1, parts, heads, head_width}).permute({2, 0, 3, 1, 4}).unbind(0);
}

// The weight at `position` of the layer's list, or none.
const at::Tensor* bias_at(std::span<const at::Tensor> weights, std::size_t position, bool has_one) {
  return has_one ? &weights[position] : nullptr;
}

// [batch, heads, steps, head width] -> [batch steps, width].
at::Tensor joined(const at::Tensor& heads) {
  return heads.transpose(1, 2).reshape({-1, heads.size(1) * heads.size(3)});
}

// Turns every pair (i, i + width / 2) of a head by its position times base^(-2 i / width), in place, or back (way -1).
// x: [batch, heads, steps, head width], from position `first` on.
void turn(const at::Tensor& x, double base, double way, std::int64_t first = 0) {
  if (base == 0) return;
  const std::int64_t half = x.size(-1) / 2;
  const at::TensorOptions exact = x.options().dtype(at::kDouble);
  const at::Tensor speeds = at::pow(base, at::arange(half, exact) / -static_cast<double>(half));
  const at::Tensor angles = at::outer(at::arange(first, first + x.size(-2), exact), speeds);
  const at::Tensor cosine = angles.cos().to(x.scalar_type()), sine = angles.sin().mul_(way).to(x.scalar_type());
  const at::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half), before = a.clone();
  a.mul_(cosine).sub_(at::mul(b, sine));
  b.mul_(cosine).add_(at::mul(before, sine));
}

// Adds attention to further keys. The sums of both are taken with the log-sum-exp of all scores, which the backward
// then reads (Dao et al., FlashAttention, section 3.1).
void merge(AttentionCore& core, const AttentionCore& more) {
  const at::Tensor all = at::logaddexp(core.log_sum_exp, more.log_sum_exp);
  const auto share = [&](const AttentionCore& part) { return at::sub(part.log_sum_exp, all).exp_().unsqueeze(-1); };
  core.output.mul_(share(core)).add_(more.output.mul(share(more)));
  core.log_sum_exp = all;
}

class AttentionLayer final : public Layer {
 public:
  explicit AttentionLayer(const Attention& spec) : spec_(spec) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode& mode, bool, LayerStash* stash) override {
    const at::Tensor& x = in[0];
    const at::Tensor ids = in.size() > 1 ? in[1] : at::Tensor();
    at::Tensor rows = as_rows(x);
    at::Tensor qkv = affine(rows, weights[0], bias_at(weights, 1, spec_.qkv_bias));
    const Projections own = projections(qkv, x.size(0));
    for (const at::Tensor& turned : {own.q, own.k}) turn(turned, spec_.rotary, 1, mode.chunk.first);
    AttentionCore core = attend(own.q, for_queries(own.k), for_queries(own.v), spec_.causal, ids);
    for (const LayerStash* before = stash ? stash->earlier : nullptr; before; before = before->earlier) {
      const Projections theirs = projections(before->kept[1], x.size(0));
      merge(core, attend(own.q, for_queries(theirs.k), for_queries(theirs.v), /*causal=*/false, {}));
    }
    const std::size_t proj = proj_position();
    at::Tensor y =
        affine(joined(core.output), weights[proj], bias_at(weights, proj + 1, spec_.proj_bias)).view(x.sizes());
    if (stash) {
      stash->kept = {std::move(rows), std::move(qkv), std::move(core.output), std::move(core.log_sum_exp)};
      if (ids.defined()) stash->kept.push_back(ids);
    }
    return y;
  }

  // Keeps {x, d qkv, heads' output, dy} for W, all as rows.
  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    const std::int64_t batch = dy.size(0);
    at::Tensor dy_rows = as_rows(dy);
    const Projections own = projections(stash.kept[1], batch);
    const AttentionCore core{stash.kept[2], stash.kept[3]};
    const at::Tensor ids = stash.chunk.count == 1 && stash.kept.size() > 4 ? stash.kept[4] : at::Tensor();
    const at::Tensor d_heads = split_heads(product(dy_rows, weights[proj_position()]), batch, 1, spec_.heads)[0];
    const AttentionGradients gradient = gradients_of(d_heads, own.q, own, core, spec_.causal, ids);
    for (LayerStash* before = stash.earlier; before; before = before->earlier) {
      const Projections theirs = projections(before->kept[1], batch);
      const AttentionGradients part = gradients_of(d_heads, own.q, theirs, core, /*causal=*/false, {});
      gradient.q.add_(part.q);
      add_to_gradients(*before, part);
    }
    if (has_gradients(stash)) {
      gradient.k.add_(stash.kept[kKeyGradient]);
      gradient.v.add_(stash.kept[kKeyGradient + 1]);
    }
    for (const at::Tensor& turned : {gradient.q, gradient.k}) turn(turned, spec_.rotary, -1, stash.chunk.first);
    at::Tensor d_qkv = at::cat({joined(gradient.q), joined(gradient.k), joined(gradient.v)}, 1);
    std::vector<at::Tensor> dx(needs_input.size());
    if (needs_input[0]) dx[0] = product(d_qkv, weights[0]).view(dy.sizes());
    stash.kept = {stash.kept[0], std::move(d_qkv), joined(core.output), std::move(dy_rows)};
    return dx;
  }

  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    const std::size_t proj = proj_position();
    add_affine_gradients(stacked(stashes, 1), stacked(stashes, 0), gradients[0], bias_at(gradients, 1, spec_.qkv_bias));
    add_affine_gradients(stacked(stashes, 3), stacked(stashes, 2), gradients[proj],
                         bias_at(gradients, proj + 1, spec_.proj_bias));
    clear(stashes);
  }

 private:
  std::size_t proj_position() const { return spec_.qkv_bias ? 2 : 1; }  // among the weights

  // Views [batch, heads, steps, head width]; of k and v, the key and value heads.
  struct Projections {
    at::Tensor q, k, v;
  };
  Projections projections(const at::Tensor& rows, std::int64_t batch) const {
    const std::int64_t inner = spec_.heads_width(), kv = spec_.kv_width(), kv_heads = spec_.heads * kv / inner;
    const auto heads = [&](std::int64_t first, std::int64_t width, std::int64_t count) {
      return rows.narrow(1, first, width).view({batch, -1, count, width / count}).transpose(1, 2);
    };
    return {heads(0, inner, spec_.heads), heads(inner, kv, kv_heads), heads(inner + kv, kv, kv_heads)};
  }

  // A key or value head for every query head, and back: the sum of the gradients of a group.
  at::Tensor for_queries(const at::Tensor& kv) const {
    return spec_.queries_per_kv() == 1 ? kv : kv.repeat_interleave(spec_.queries_per_kv(), 1);
  }
  at::Tensor summed_over_queries(const at::Tensor& gradient) const {
    return spec_.queries_per_kv() == 1 ? gradient : gradient.unflatten(1, {-1, spec_.queries_per_kv()}).sum(2);
  }
  AttentionGradients gradients_of(const at::Tensor& d_heads, const at::Tensor& q, const Projections& keys,
                                  const AttentionCore& core, bool causal, const at::Tensor& ids) const {
    const AttentionGradients all =
        attend_backward(d_heads, q, for_queries(keys.k), for_queries(keys.v), core, causal, ids);
    return {all.q, summed_over_queries(all.k), summed_over_queries(all.v)};
  }

  // Of a chunk, from the first backward of a later one on: the gradients of its keys and values, summed up.
  static constexpr std::size_t kKeyGradient = 4;
  static bool has_gradients(const LayerStash& stash) {
    return stash.chunk.count > 1 && stash.kept.size() > kKeyGradient;
  }
  static void add_to_gradients(LayerStash& stash, const AttentionGradients& part) {
    if (has_gradients(stash)) {
      stash.kept[kKeyGradient].add_(part.k);
      stash.kept[kKeyGradient + 1].add_(part.v);
    } else {
      stash.kept.push_back(part.k);
      stash.kept.push_back(part.v);
    }
  }

  Attention spec_;
};

class CrossAttentionLayer final : public Layer {
 public:
  explicit CrossAttentionLayer(const CrossAttention& spec) : spec_(spec) {}

  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash* stash) override {
    const std::int64_t batch = in[0].size(0);
    const at::Tensor ids = in.size() > 2 ? in[2] : at::Tensor();
    at::Tensor rows = as_rows(in[0]), memory = as_rows(in[1]);
    at::Tensor q = affine(rows, weights[0], bias_at(weights, 1, spec_.bias));
    at::Tensor kv = affine(memory, weights[each()], bias_at(weights, 3, spec_.bias));
    const std::vector<at::Tensor> heads = split_heads(kv, batch, 2, spec_.heads);
    AttentionCore core = attend(split_heads(q, batch, 1, spec_.heads)[0], heads[0], heads[1], false, ids);
    at::Tensor y =
        affine(joined(core.output), weights[2 * each()], bias_at(weights, 5, spec_.bias)).view(in[0].sizes());
    if (stash) {
      stash->kept = {std::move(rows), std::move(memory),      std::move(q),
                     std::move(kv),   std::move(core.output), std::move(core.log_sum_exp)};
      if (ids.defined()) stash->kept.push_back(ids);
    }
    return y;
  }

  // Keeps {x, memory, dq, d kv, heads' output, dy} for W, all as rows.
  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    const std::int64_t batch = dy.size(0);
    at::Tensor dy_rows = as_rows(dy);
    const at::Tensor q = split_heads(stash.kept[2], batch, 1, spec_.heads)[0];
    const std::vector<at::Tensor> heads = split_heads(stash.kept[3], batch, 2, spec_.heads);
    const AttentionCore core{stash.kept[4], stash.kept[5]};
    const at::Tensor ids = stash.kept.size() > 6 ? stash.kept[6] : at::Tensor();
    const at::Tensor d_heads = split_heads(product(dy_rows, weights[2 * each()]), batch, 1, spec_.heads)[0];
    const AttentionGradients gradient = attend_backward(d_heads, q, heads[0], heads[1], core, false, ids);
    at::Tensor d_q = joined(gradient.q);
    at::Tensor d_kv = at::cat({joined(gradient.k), joined(gradient.v)}, 1);
    std::vector<at::Tensor> dx(needs_input.size());
    if (needs_input[0]) dx[0] = product(d_q, weights[0]).view(dy.sizes());
    if (needs_input[1]) dx[1] = product(d_kv, weights[each()]).view({batch, -1, spec_.memory});
    stash.kept = {stash.kept[0],   stash.kept[1],       std::move(d_q),
                  std::move(d_kv), joined(core.output), std::move(dy_rows)};
    return dx;
  }

  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    const auto add = [&](std::size_t dz, std::size_t x, std::size_t weight) {
      add_affine_gradients(stacked(stashes, dz), stacked(stashes, x), gradients[weight],
                           bias_at(gradients, weight + 1, spec_.bias));
    };
    add(2, 0, 0);
    add(3, 1, each());
    add(5, 4, 2 * each());
    clear(stashes);
  }

 private:
  std::size_t each() const { return spec_.bias ? 2 : 1; }  // weights of a projection

  CrossAttention spec_;
};

}  // namespace

AttentionCore attend_flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
                           const at::Tensor& key_ids) {
  auto [output, log_sum_exp] =
      at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, /*dropout_p=*/0.0, causal, flash_mask(q, key_ids));
  return {std::move(output), std::move(log_sum_exp)};
}

AttentionGradients attend_flash_backward(const at::Tensor& dy, const at::Tensor& q, const at::Tensor& k,
                                         const at::Tensor& v, const AttentionCore& forward, bool causal,
                                         const at::Tensor& key_ids) {
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      dy, q, k, v, forward.output, forward.log_sum_exp, /*dropout_p=*/0.0, causal, flash_mask(q, key_ids));
  return {std::move(dq), std::move(dk), std::move(dv)};
}

AttentionCore attend_products(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
                              const at::Tensor& key_ids) {
  at::Tensor scores = scores_of(q, k, causal, key_ids);
  at::Tensor log_sum_exp = scores.logsumexp(-1);
  const at::Tensor probabilities = scores.sub_(log_sum_exp.unsqueeze(-1)).exp_();
  at::Tensor output = at::matmul(probabilities, v);
  return {std::move(output), std::move(log_sum_exp)};
}

AttentionGradients attend_products_backward(const at::Tensor& dy, const at::Tensor& q, const at::Tensor& k,
                                            const at::Tensor& v, const AttentionCore& forward, bool causal,
                                            const at::Tensor& key_ids) {
  const at::Tensor probabilities = scores_of(q, k, causal, key_ids).sub_(forward.log_sum_exp.unsqueeze(-1)).exp_();
  // d softmax: p (dp - sum p dp), and sum p dp = dy . output, row by row.
  const at::Tensor weighted = (dy * forward.output).sum(-1, /*keepdim=*/true);
  const at::Tensor d_scores = at::matmul(dy, v.transpose(-2, -1)).sub_(weighted).mul_(probabilities).mul_(scale_of(q));
  return {at::matmul(d_scores, k), at::matmul(d_scores.transpose(-2, -1), q),
          at::matmul(probabilities.transpose(-2, -1), dy)};
}

std::unique_ptr<Layer> make(const Attention& spec) { return std::make_unique<AttentionLayer>(spec); }
std::unique_ptr<Layer> make(const CrossAttention& spec) { return std::make_unique<CrossAttentionLayer>(spec); }

}  // namespace sluice
