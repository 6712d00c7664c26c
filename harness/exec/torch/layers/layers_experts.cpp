// A mixture of experts. Rows of tokens are gathered by expert, so that every expert is one product a matrix.
#include <numeric>

#include "harness/exec/torch/layers/layers.h"

namespace sluice {
namespace {

// Which tokens the held experts take: of held expert e the `counts[e]` entries of `pairs` behind those of the ones
// before it, in the order of the tokens. A pair is token * top_k + its place among the token's choices.
struct Routing {
  at::Tensor pairs, tokens;
  std::vector<std::int64_t> counts;
};

// choice: [tokens of the micro-batch, top_k]; samples: of the micro-batch; held: the first expert that is held.
Routing route(const Experts& spec, std::int64_t held, const at::Tensor& choice, std::int64_t samples) {
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
  const auto* const first = all + held;
  std::vector<std::int64_t> own(first, first + spec.held_experts());
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

// Every row times the matrix of its expert, of matrices: [held experts, in, out].
at::Tensor products(const at::Tensor& rows, const at::Tensor& matrices, const std::vector<std::int64_t>& counts) {
  std::vector<at::Tensor> parts;
  for_every_expert(counts, [&](std::int64_t e, std::int64_t first, std::int64_t count) {
    parts.push_back(product(rows.narrow(0, first, count), matrices.select(0, e)));
  });
  return parts.empty() ? at::empty({0, matrices.size(2)}, rows.options()) : at::cat(parts);
}

class ExpertsLayer final : public Layer {
 public:
  ExpertsLayer(const Experts& spec, std::int64_t held, std::function<void(at::Tensor&)> sum)
      : spec_(spec), held_(held), sum_(std::move(sum)), function_(make(Activation{spec.activation})) {}

  // Keeps {x, choice, p, what goes into f and, gated, its factor}, all as rows.
  at::Tensor forward(std::span<const at::Tensor> in, std::span<const at::Tensor> weights, const at::Tensor&,
                     const ForwardMode&, bool, LayerStash* stash) override {
    at::Tensor x = as_rows(in[0]);
    const auto [scores, order] =
        at::sort(affine(x, weights[0], nullptr), /*stable=*/true, /*dim=*/1, /*descending=*/true);
    at::Tensor choice = order.narrow(1, 0, spec_.top_k).clone();
    at::Tensor p = at::softmax(scores.narrow(1, 0, spec_.top_k), 1);
    const Routing routing = route(spec_, held_, choice, in[0].size(0));
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
    const Routing routing = route(spec_, held_, choice, dy.size(0));
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
      const Routing routing = route(spec_, held_, choice, dy.size(0));
      gradients[0].addmm_(of_all(kept[2], choice).t(), x);
      const at::Tensor rows = x.index_select(0, routing.tokens), dy_rows = as_rows(dy).index_select(0, routing.tokens);
      for_every_expert(routing.counts, [&](std::int64_t e, std::int64_t first, std::int64_t count) {
        const auto add = [&](std::size_t weight, const at::Tensor& dz, const at::Tensor& input) {
          gradients[weight][e].addmm_(dz.narrow(0, first, count).t(), input.narrow(0, first, count));
        };
        add(1, kept[5], rows);
        if (spec_.gated) add(2, kept[6], rows);
        add(gradients.size() - 1, dy_rows, hidden);
      });
    }
    clear(stashes);
  }

 private:
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
  std::int64_t held_;                     // the first expert that is held
  std::function<void(at::Tensor&)> sum_;  // over the devices that share the experts; empty: one holds all
  std::unique_ptr<Layer> function_;
};

}  // namespace

std::unique_ptr<Layer> make(const Experts& spec, std::int64_t first, std::function<void(at::Tensor&)> sum) {
  return std::make_unique<ExpertsLayer>(spec, first, std::move(sum));
}

}  // namespace sluice
