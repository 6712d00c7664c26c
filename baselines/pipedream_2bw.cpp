// PipeDream-2BW (Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021,
// arXiv 2006.09503): 1F1B without a flush where m micro-batches make one update and two weight
// versions are enough. Update b (from 0) runs forward and backward on version max(b - 1, 0) on
// every stage:
//
//   W(t+1) = W(t) - lr * gradient of f at W(t-1)
//
// p = 3, m = 3: which version rank 0's forwards read, and its steps
//
//   micro-batch   0 1 2 | 3 4 5 | 6 7 8 | 9 ...
//   version       0 0 0 | 0 0 0 | 1 1 1 | 2 ...
//
// The version a batch needs is the newest or the one before exactly when m >= p - 1 (the paper asks
// m >= p); fewer are refused. A drained and refilled pipe starts with both buffers the same, so the
// first two updates after it have delay 0 and 1.
//
// recompute=yes: a stage keeps its inputs and runs the forward again before the backward, on the
// batch's own version.
#include <algorithm>

#include "harness/core/error.h"
#include "harness/plan/chain_partition.h"
#include "harness/plan/continuous_1f1b.h"

namespace sluice {

static Schedule two_buffered_schedule(const ScheduleProblem& problem, const Options&) {
  const int stages = static_cast<int>(problem.graph.size()), m = problem.microbatches_per_update;
  if (m < stages - 1)
    throw InputError("microbatches",
                     std::to_string(m) + " per update are too few for " + std::to_string(stages) +
                         " stages: a batch would need a weight version that does not exist yet",
                     "give at least " + std::to_string(stages - 1));
  return continuous_1f1b(problem);
}

static WeightRule two_buffered_weights(const ScheduleProblem& problem, const Options& options) {
  return {.update = WeightRule::Update::every_backward,
          .forward = WeightRule::Forward::previous,
          .accumulate = problem.microbatches_per_update,
          .recompute = options.flag("recompute") ? WeightRule::Recompute::forward_weights
                                                 : WeightRule::Recompute::none};
}

static Theory two_buffered_theory(const ScheduleProblem& problem, const Options&) {
  const int m = problem.microbatches_per_update, updates = problem.microbatches / m;
  Theory theory = theory_of_continuous_1f1b(problem, m);
  for (int& updates_late : theory.staleness) updates_late = std::min(1, updates - 1);
  theory.weight_versions.assign(theory.in_flight.size(), std::min(2, updates));
  return theory;
}

extern const System pipedream_2bw;
const System pipedream_2bw = {
    .name = "pipedream_2bw",
    .aliases = {"2bw"},
    .title = "PipeDream-2BW",
    .citation =
        "Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021 "
        "(arXiv 2006.09503)",
    .synchronous = false,
    .accumulates = true,
    .options = {{"recompute", "no", "run the forward again before the backward", kYesNo}},
    .plan = [](const Problem& p,
               const Options&) { return balanced_chain(p, p.devices, "pipedream_2bw"); },
    .schedule = two_buffered_schedule,
    .weights = two_buffered_weights,
    .theory = two_buffered_theory,
};

}  // namespace sluice
