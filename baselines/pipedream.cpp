// PipeDream (Narayanan et al., SOSP 2019, arXiv 1806.03377): 1F1B over whole mini-batches without a
// flush; every stage updates after each of its backwards, so batches in flight were forwarded on
// older weights. The pipe is filled once an epoch and drained before evaluation. p = 3, 5 batches:
//
//   rank 0  F0 F1 F2       B0 F3 B1 F4 B2    B3    B4
//   rank 1     F0 F1    B0 F2 B1 F3 B2 F4 B3    B4
//   rank 2        F0 B0 F1 B1 F2 B2 F3 B3 F4 B4
//
// weights=stash (section 3.3, weight stashing): a batch's backward on a stage reads the tensor its
// forward
//   read; the forward reads the newest. Stage k keeps p - k versions.
// weights=vertical_sync (section 3.3): every stage uses the version that stage 0 had when the batch
// entered;
//   off by default in the paper. p versions on every stage.
// weights=naive: no stash; the backward reads whatever is newest. The straw man the paper argues
// against.
#include <algorithm>

#include "harness/plan/chain_partition.h"

namespace sluice {

static Schedule pipedream_schedule(const ScheduleProblem& problem, const Options&) {
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(problem.ranks)),
                    .microbatches = problem.microbatches};
  const int p = static_cast<int>(problem.graph.size()), n = problem.microbatches;
  for (int s = 0; s < p; ++s) {
    auto& ops =
        schedule.ranks[problem.placement.stages[static_cast<std::size_t>(s)].front().index()];
    ops.reserve(2 * static_cast<std::size_t>(n));
    const int in_flight =
        std::min(p - s, n);  // NOAM on the input stage, one less on each stage after it
    for (int i = 0; i < in_flight; ++i) ops.push_back(forward_op(s, i));
    for (int i = 0; i < n; ++i) {
      ops.push_back(backward_op(s, i));
      if (in_flight + i < n) ops.push_back(forward_op(s, in_flight + i));
    }
  }
  return schedule;
}

static WeightRule pipedream_weights(const Options& options) {
  WeightRule rule{.update = WeightRule::Update::every_backward};
  const std::string& weights = options.text("weights");
  if (weights == "naive") rule.backward = WeightRule::Backward::newest;
  if (weights == "vertical_sync") rule.forward = WeightRule::Forward::injected;
  return rule;
}

static Theory pipedream_theory(const ScheduleProblem& problem, const Options& options) {
  Theory theory;
  const int p = problem.ranks, n = problem.microbatches;
  const std::string& weights = options.text("weights");
  // Over one filled and drained run of n batches; it vanishes as n grows.
  theory.bubble_ratio = static_cast<double>(p - 1) / (n + p - 1);
  for (int r = 0; r < p; ++r) {
    theory.in_flight.push_back(std::min(n, p - r));
    // p - r (or p) once the pipe is full; the w batches that fill it all read version 0.
    const int w = std::min(n, weights == "stash" ? p - r : p);
    theory.weight_versions.push_back(weights == "naive" ? 1 : std::min(w, n - w + 2));
    theory.staleness.push_back(std::min(n - 1, weights == "vertical_sync" ? p - 1 : p - 1 - r));
  }
  return theory;
}

extern const System pipedream;
const System pipedream = {
    .name = "pipedream",
    .aliases = {},
    .title = "PipeDream",
    .citation =
        "Narayanan et al., PipeDream: Generalized Pipeline Parallelism for DNN Training, SOSP 2019 "
        "(arXiv 1806.03377)",
    .synchronous = false,
    .options = {{"weights",
                 "stash",
                 "weight versions: stash (the paper's default), vertical_sync or naive (no stash)",
                 {"stash", "vertical_sync", "naive"}}},
    .plan = [](const Problem& p,
               const Options&) { return balanced_chain(p, p.devices, "pipedream"); },
    .schedule = pipedream_schedule,
    .weights = pipedream_weights,
    .theory = pipedream_theory,
};

}  // namespace sluice
