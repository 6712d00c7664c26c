// A mixture of experts. Rows of tokens are gathered by expert, so that every expert is one product a matrix.
#include <numeric>

#include "harness/exec/torch/layers/expert_group.h"
#include "harness/exec/torch/layers/layers.h"

namespace sluice {
namespace {

// Which tokens some experts take: of the e-th of them the `counts[e]` entries of `pairs` behind those of the ones
// before it, in the order of the tokens. A pair is token * top_k + its place among the token's choices.
struct Routing {
  at::Tensor pairs, tokens;
  std::vector<std::int64_t> counts;
};

// To `experts` experts from `first_expert` on. choice: [tokens of the micro-batch, top_k]; samples: of the micro-batch.
Routing route(const Experts& spec, std::int64_t first_expert, std::int64_t experts, const at::Tensor& choice,
              std::int64_t samples) {
  const at::Tensor flat = choice.reshape({-1});
  const std::int64_t of_sample = flat.numel() / samples;
  at::Tensor pairs = at::argsort(flat, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  // In groups of an expert and a sample, which lie one after another.
  const at::Tensor group = flat.index_select(0, pairs).mul_(samples).add_(pairs.floor_divide(of_sample));
  at::Tensor sizes = at::bincount(group, {}, spec.experts * samples);
  if (spec.capacity > 0) {
    const at::Tensor first = sizes.cumsum(0).sub_(sizes);
    const at::Tensor place = at::arange(pairs.numel(), pairs.options()).sub_(first.index_select(0, group));
    const std::int64_t capacity = spec.capacity_of(of_sample / spec.top_k);
    pairs = pairs.masked_select(place.lt(capacity));
    sizes.clamp_max_(capacity);
  }
  const at::Tensor counts = sizes.view({spec.experts, samples}).sum(1).cpu();
  const auto* const all = counts.const_data_ptr<std::int64_t>();
  const auto* const first = all + first_expert;
  std::vector<std::int64_t> own(first, first + experts);
  pairs = pairs.narrow(0, std::accumulate(all, first, std::int64_t{0}),
                       std::accumulate(own.begin(), own.end(), std::int64_t{0}));
  at::Tensor tokens = pairs.floor_divide(spec.top_k);
  return {std::move(pairs), std::move(tokens), std::move(own)};
}

// Calls `use` with every expert that has rows, its first one and how many.
template <class Use>
void for_every_expert(const std::vector<std::int64_t>& counts, Use use) {
  std::int64_t first = 0;
  for (std::size_t e = 0; e < counts.size(); first += counts[e++])
    if (counts[e] > 0) use(static_cast<std::int64_t>(e), first, counts[e]);
}

// Adds to the gradient of every expert's matrix, of gradient: [held experts, out, in].
void add_gradients(const at::Tensor& gradient, const at::Tensor& d_out, const at::Tensor& in,
                   const std::vector<std::int64_t>& counts) {
  for_every_expert(counts, [&](std::int64_t e, std::int64_t first, std::int64_t count) {
    gradient[e].addmm_(d_out.narrow(0, first, count).t(), in.narrow(0, first, count));
  });
}

// Every row times the matrix of its expert, of matrices: [held experts, in, out].
at::Tensor products(const at::Tensor& rows, const at::Tensor& matrices, const std::vector<std::int64_t>& counts) {
  std::vector<at::Tensor> parts;
  for_every_expert(counts, [&](std::int64_t e, std::int64_t first, std::int64_t count) {
    parts.push_back(product(rows.narrow(0, first, count), matrices.select(0, e)));
  });
  return parts.empty() ? at::empty({0, matrices.size(2)}, rows.options()) : at::cat(parts);
}

// What the layer has in common whoever holds its experts.
class AnyExperts : public Layer {
 protected:
  explicit AnyExperts(const Experts& spec) : spec_(spec), function_(make(Activation{spec.activation})) {}

  // Of rows of tokens: their experts and the softmax of these scores, both [tokens, top_k].
  std::pair<at::Tensor, at::Tensor> choices(const at::Tensor& x, const at::Tensor& router) const {
    const auto [scores, order] = at::sort(affine(x, router, nullptr), /*stable=*/true, /*dim=*/1, /*descending=*/true);
    return {order.narrow(1, 0, spec_.top_k).clone(), at::softmax(scores.narrow(1, 0, spec_.top_k), 1)};
  }
  // f(inward), times its factor if there is one.
  at::Tensor hidden_of(const at::Tensor& inward, const at::Tensor& factor, LayerStash* stash,
                       at::Tensor* activated = nullptr) const {
    at::Tensor value = function_->forward({&inward, 1}, {}, {}, {}, /*may_overwrite=*/false, stash);
    if (activated) *activated = value;
    return factor.defined() ? at::mul(value, factor) : value;
  }

  // p: [tokens, top_k] -> of the pairs: [rows, 1].
  static at::Tensor of_pairs(const at::Tensor& p, const Routing& routing) {
    return p.reshape({-1}).index_select(0, routing.pairs).unsqueeze(1);
  }
  // Of every token the sum of its rows, in the order of its choices: [rows, width] -> [tokens, width].
  at::Tensor summed(const at::Tensor& rows, const Routing& routing, std::int64_t tokens) const {
    return at::zeros({tokens * spec_.top_k, rows.size(1)}, rows.options())
        .index_copy_(0, routing.pairs, rows)
        .view({tokens, spec_.top_k, -1})
        .sum(1);
  }
  // Of the chosen experts -> of all: [tokens, experts].
  at::Tensor of_all(const at::Tensor& chosen, const at::Tensor& choice) const {
    return at::zeros({chosen.size(0), spec_.experts}, chosen.options()).scatter_(1, choice, chosen);
  }
  // With zeros up to the rows that costs and memory count. in: the layer's input or output.
  at::Tensor reserved(at::Tensor rows, const at::Tensor& in) const {
    const std::int64_t samples = in.size(0), tokens = in.numel() / samples / spec_.features;
    const std::int64_t missing = samples * spec_.rows_of(tokens) - rows.size(0);
    return missing > 0 ? at::constant_pad_nd(rows, {0, 0, 0, missing}) : rows;
  }

  Experts spec_;
  std::unique_ptr<Layer> function_;
};

class ExpertsLayer final : public AnyExperts {
 public:
  ExpertsLayer(const Experts& spec, std::int64_t held, std::function<void(at::Tensor&)> sum)
      : AnyExperts(spec), held_(held), sum_(std::move(sum)) {}

  // Keeps {x, choice, p, what goes into f and, gated, its factor}, all as rows.
  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash* stash) override {
    at::Tensor x = as_rows(in[0]);
    auto [choice, p] = choices(x, weights[0]);
    const Routing routing = route(spec_, held_, spec_.held_experts(), choice, in[0].size(0));
    const at::Tensor rows = x.index_select(0, routing.tokens);
    at::Tensor inward = products(rows, weights[1].transpose(1, 2), routing.counts), factor;
    if (spec_.gated) factor = products(rows, weights[2].transpose(1, 2), routing.counts);
    const at::Tensor hidden = hidden_of(inward, factor, nullptr);
    const at::Tensor outward = products(hidden, weights.back().transpose(1, 2), routing.counts);
    at::Tensor y = summed(outward.mul(of_pairs(p, routing)), routing, x.size(0)).view(in[0].sizes());
    if (stash) {
      stash->kept = {std::move(x), std::move(choice), std::move(p), reserved(std::move(inward), in[0])};
      if (spec_.gated) stash->kept.push_back(reserved(std::move(factor), in[0]));
    }
    return y;
  }

  // Keeps {x, choice, gradients of the chosen scores, p f(..), dy, gradients of what went into f and of its factor}.
  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    const at::Tensor choice = stash.kept[1], p = stash.kept[2];
    const Routing routing = route(spec_, held_, spec_.held_experts(), choice, dy.size(0));
    const std::int64_t count = routing.pairs.numel(), tokens = choice.size(0);
    const at::Tensor inward = stash.kept[3].narrow(0, 0, count);
    const at::Tensor factor = spec_.gated ? stash.kept[4].narrow(0, 0, count) : at::Tensor();
    LayerStash of_function;
    at::Tensor activated;
    at::Tensor hidden = hidden_of(inward, factor, &of_function, &activated);
    at::Tensor d_hidden = products(as_rows(dy).index_select(0, routing.tokens), weights.back(), routing.counts);

    at::Tensor d_p =
        at::zeros({p.numel()}, p.options()).index_copy_(0, routing.pairs, at::mul(d_hidden, hidden).sum(1));
    if (sum_) sum_(d_p);
    const at::Tensor weighted = d_p.view(p.sizes()).mul_(p);
    at::Tensor d_scores = at::sub(weighted, weighted.sum(1, /*keepdim=*/true).mul(p));

    const at::Tensor shares = of_pairs(p, routing);
    d_hidden.mul_(shares);
    hidden = at::mul(hidden, shares);
    at::Tensor d_factor = spec_.gated ? at::mul(d_hidden, activated) : at::Tensor();
    activated.reset();
    const at::Tensor d_activated = spec_.gated ? d_hidden.mul_(factor) : d_hidden;
    at::Tensor d_inward = function_->input_gradient(d_activated, {}, {true}, of_function)[0];

    std::vector<at::Tensor> dx(1);
    if (needs_input[0]) {
      at::Tensor rows = products(d_inward, weights[1], routing.counts);
      if (spec_.gated) rows.add_(products(d_factor, weights[2], routing.counts));
      dx[0] = summed(rows, routing, tokens).view(dy.sizes());
      if (held_ == 0) as_rows(dx[0]).add_(product(of_all(d_scores, choice), weights[0]));
    }
    stash.kept = {stash.kept[0],
                  choice,
                  std::move(d_scores),
                  reserved(std::move(hidden), dy),
                  dy,
                  reserved(std::move(d_inward), dy)};
    if (spec_.gated) stash.kept.push_back(reserved(std::move(d_factor), dy));
    return dx;
  }

  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    for (LayerStash* const stash : stashes) {
      const std::vector<at::Tensor>& kept = stash->kept;
      const at::Tensor &x = kept[0], &choice = kept[1], &hidden = kept[3], &dy = kept[4];
      const Routing routing = route(spec_, held_, spec_.held_experts(), choice, dy.size(0));
      gradients[0].addmm_(of_all(kept[2], choice).t(), x);
      const at::Tensor rows = x.index_select(0, routing.tokens), dy_rows = as_rows(dy).index_select(0, routing.tokens);
      add_gradients(gradients[1], kept[5], rows, routing.counts);
      if (spec_.gated) add_gradients(gradients[2], kept[6], rows, routing.counts);
      add_gradients(gradients.back(), dy_rows, hidden, routing.counts);
    }
    clear(stashes);
  }

 private:
  std::int64_t held_;                     // the first expert that is held
  std::function<void(at::Tensor&)> sum_;  // over the devices that share the experts; empty: one holds all
};

// Blocks of rows, of counts[a * inner + b] rows each in the order (a, b): the same in the order (b, a).
at::Tensor transposed(const at::Tensor& rows, const std::vector<std::int64_t>& counts, std::size_t inner) {
  const std::vector<at::Tensor> blocks = rows.split_with_sizes(counts);
  std::vector<at::Tensor> result;
  for (std::size_t b = 0; b < inner; ++b)
    for (std::size_t k = b; k < blocks.size(); k += inner) result.push_back(blocks[k]);
  return at::cat(result);
}

// Experts over the replicas of a stage (model/expert_spread.h).
class SpreadExperts final : public AnyExperts {
 public:
  SpreadExperts(const Experts& spec, ExpertGroup& group) : AnyExperts(spec), group_(group) {}

  // Keeps {x, choice, p, the rows received, what goes into f and, gated, its factor}.
  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash* stash) override {
    at::Tensor x = as_rows(in[0]);
    auto [choice, p] = choices(x, weights[0]);
    const Routing routing = route(spec_, 0, spec_.experts, choice, in[0].size(0));
    const Dispatch dispatch(routing, group_.exchange(routing.counts), group_);
    at::Tensor rows = dispatch.to_experts(x.index_select(0, routing.tokens));
    at::Tensor inward = products(rows, weights[1].transpose(1, 2), dispatch.counts), factor;
    if (spec_.gated) factor = products(rows, weights[2].transpose(1, 2), dispatch.counts);
    const at::Tensor hidden = hidden_of(inward, factor, nullptr);
    const at::Tensor outward = dispatch.back(products(hidden, weights.back().transpose(1, 2), dispatch.counts));
    at::Tensor y = summed(outward.mul(of_pairs(p, routing)), routing, x.size(0)).view(in[0].sizes());
    if (stash) {
      stash->kept = {std::move(x), std::move(choice), std::move(p), reserved(std::move(rows), in[0]),
                     reserved(std::move(inward), in[0])};
      if (spec_.gated) stash->kept.push_back(reserved(std::move(factor), in[0]));
      stash->received = dispatch.received;
    }
    return y;
  }

  // Keeps {x, choice, gradients of the chosen scores, the rows received, f(..), the output gradients received, those of
  // what went into f and of its factor}. The gradients of a token's p are needed times p only, so the experts are given
  // p dy, and their share of the softmax's gradient is <W_down^T p dy, f(..)>.
  std::vector<at::Tensor> input_gradient(const at::Tensor& dy, std::span<const at::Tensor> weights,
                                         const std::vector<bool>& needs_input, LayerStash& stash) override {
    const at::Tensor choice = stash.kept[1], p = stash.kept[2], received = stash.kept[3];
    const Routing routing = route(spec_, 0, spec_.experts, choice, dy.size(0));
    const Dispatch dispatch(routing, stash.received, group_);
    at::Tensor d_outward = dispatch.to_experts(as_rows(dy).index_select(0, routing.tokens).mul_(of_pairs(p, routing)));
    const std::int64_t count = d_outward.size(0);
    const at::Tensor inward = stash.kept[4].narrow(0, 0, count);
    const at::Tensor factor = spec_.gated ? stash.kept[5].narrow(0, 0, count) : at::Tensor();
    LayerStash of_function;
    at::Tensor activated;
    at::Tensor hidden = hidden_of(inward, factor, &of_function, &activated);
    at::Tensor d_hidden = products(d_outward, weights.back(), dispatch.counts);
    at::Tensor way_back = at::mul(d_hidden, hidden).sum(1, /*keepdim=*/true);
    at::Tensor d_factor = spec_.gated ? at::mul(d_hidden, activated) : at::Tensor();
    activated.reset();
    const at::Tensor d_activated = spec_.gated ? d_hidden.mul_(factor) : d_hidden;
    at::Tensor d_inward = function_->input_gradient(d_activated, {}, {true}, of_function)[0];
    if (needs_input[0]) {
      at::Tensor d_rows = products(d_inward, weights[1], dispatch.counts);
      if (spec_.gated) d_rows.add_(products(d_factor, weights[2], dispatch.counts));
      way_back = at::cat({way_back, d_rows}, 1);
    }
    way_back = dispatch.back(way_back);

    const at::Tensor weighted =
        at::zeros({p.numel()}, p.options()).index_copy_(0, routing.pairs, way_back.select(1, 0)).view(p.sizes());
    at::Tensor d_scores = at::sub(weighted, weighted.sum(1, /*keepdim=*/true).mul(p));
    std::vector<at::Tensor> dx(1);
    if (needs_input[0]) {
      const at::Tensor d_rows = way_back.narrow(1, 1, spec_.features);
      dx[0] = summed(d_rows, routing, choice.size(0)).add_(product(of_all(d_scores, choice), weights[0]));
      dx[0] = dx[0].view(dy.sizes());
    }
    stash.kept = {stash.kept[0],
                  choice,
                  std::move(d_scores),
                  received,
                  reserved(std::move(hidden), dy),
                  reserved(std::move(d_outward), dy),
                  reserved(std::move(d_inward), dy)};
    if (spec_.gated) stash.kept.push_back(reserved(std::move(d_factor), dy));
    return dx;
  }

  void weight_gradient(std::span<LayerStash* const> stashes, std::span<const at::Tensor> gradients) override {
    for (LayerStash* const stash : stashes) {
      const std::vector<at::Tensor>& kept = stash->kept;
      const at::Tensor &rows = kept[3], &hidden = kept[4], &d_outward = kept[5];
      gradients[0].addmm_(of_all(kept[2], kept[1]).t(), kept[0]);
      const std::vector<std::int64_t> counts = by_expert(stash->received);
      add_gradients(gradients[1], kept[6], rows, counts);
      if (spec_.gated) add_gradients(gradients[2], kept[7], rows, counts);
      add_gradients(gradients.back(), d_outward, hidden, counts);
      stash->received.clear();
    }
    clear(stashes);
  }

 private:
  // The rows of every held expert, of all replicas.
  std::vector<std::int64_t> by_expert(const std::vector<std::int64_t>& received) const {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(spec_.held_experts()), 0);
    for (std::size_t k = 0; k < received.size(); ++k) counts[k % counts.size()] += received[k];
    return counts;
  }

  // The two exchanges of a micro-batch. Rows of tokens are in the order of routing.pairs: by expert, so by replica.
  // Rows at the experts are by held expert, and of an expert by the replica that they come from.
  struct Dispatch {
    Dispatch(const Routing& routing, std::vector<std::int64_t> from_replicas, ExpertGroup& replicas)
        : received(std::move(from_replicas)), group(replicas) {
      const auto members = static_cast<std::size_t>(group.members()), held = received.size() / members;
      counts.assign(held, 0);
      of_experts.resize(received.size());
      to.assign(members, 0), from.assign(members, 0);
      for (std::size_t k = 0; k < received.size(); ++k) {
        counts[k % held] += received[k];
        of_experts[k % held * members + k / held] = received[k];
        from[k / held] += received[k];
        to[k / held] += routing.counts[k];
      }
    }
    at::Tensor to_experts(const at::Tensor& rows) const {
      return transposed(group.exchange(rows, to, from), received, counts.size());
    }
    at::Tensor back(const at::Tensor& rows) const {
      return group.exchange(transposed(rows, of_experts, to.size()), from, to);
    }

    std::vector<std::int64_t> received;    // [replica, held expert]
    std::vector<std::int64_t> of_experts;  // the same: [held expert, replica]
    std::vector<std::int64_t> counts;      // by held expert
    std::vector<std::int64_t> to, from;    // rows, by replica
    ExpertGroup& group;
  };

  ExpertGroup& group_;
};

}  // namespace

std::unique_ptr<Layer> make(const Experts& spec, std::int64_t first, std::function<void(at::Tensor&)> sum) {
  return std::make_unique<ExpertsLayer>(spec, first, std::move(sum));
}

std::unique_ptr<Layer> make_spread_experts(const Experts& spec, ExpertGroup& group) {
  return std::make_unique<SpreadExperts>(spec, group);
}

}  // namespace sluice
