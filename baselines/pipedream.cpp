// PipeDream (Narayanan et al., SOSP 2019, arXiv 1806.03377): 1F1B over whole mini-batches without a
// flush; every stage updates after each of its backwards, so batches in flight were forwarded on
// older weights. The pipe is filled once an epoch and drained before evaluation. The order is drawn
// in harness/plan/continuous_1f1b.h.
//
// weights=stash (section 3.3, weight stashing): a batch's backward on a stage reads the tensor its
//   forward read; the forward reads the newest. Stage k keeps p - k versions.
// weights=vertical_sync (section 3.3): every stage uses the version that stage 0 had when the batch
//   entered; off by default in the paper. p versions on every stage.
// weights=naive: no stash; the backward reads whatever is newest. The straw man the paper argues
//   against.
// weights=ring: as the released code stashes, in a ring by position, which a drained pipe does not
//   refresh: from the second epoch on, the first p - 1 - k batches of stage k run backward on
//   versions of the epoch before.
//
// A replicated stage (1F1B-RR) updates after one batch on each of its replicas, with their mean
// gradient, and at a learning rate in proportion to them.
#include <algorithm>

#include "harness/plan/chain_partition.h"
#include "harness/plan/continuous_1f1b.h"

namespace sluice {

static WeightRule pipedream_weights(const ScheduleProblem&, const Options& options) {
  WeightRule rule{.update = WeightRule::Update::every_backward};
  const std::string& weights = options.text("weights");
  if (weights == "naive") rule.backward = WeightRule::Backward::newest;
  if (weights == "ring") rule.backward = WeightRule::Backward::ring;
  if (weights == "vertical_sync") rule.forward = WeightRule::Forward::injected;
  return rule;
}

static Theory pipedream_theory(const ScheduleProblem& problem, const Options& options) {
  Theory theory = theory_of_continuous_1f1b(problem, 1);
  const int p = problem.ranks, n = problem.microbatches;
  const std::string& weights = options.text("weights");
  for (int r = 0; r < p && !theory.in_flight.empty(); ++r) {
    // p - r (or p) once the pipe is full; the w batches that fill it all read version 0.
    const int w = std::min(n, weights == "stash" ? p - r : p);
    int versions = std::min(w, n - w + 2);
    if (weights == "naive") versions = 1;
    if (weights == "ring") versions = p - r;  // those of the epoch before stay as well
    theory.weight_versions.push_back(versions);
    if (weights == "vertical_sync")
      theory.staleness[static_cast<std::size_t>(r)] = std::min(n - 1, p - 1);
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
                 "weight versions: stash (the paper's default), vertical_sync, naive (no stash) or "
                 "ring (the released code's stash, stale after a drained epoch)",
                 {"stash", "vertical_sync", "naive", "ring"}}},
    .plan = [](const Problem& p,
               const Options&) { return balanced_chain(p, p.devices, "pipedream"); },
    .schedule = [](const ScheduleProblem& p, const Options&) { return continuous_1f1b(p); },
    .weights = pipedream_weights,
    .theory = pipedream_theory,
};

}  // namespace sluice
