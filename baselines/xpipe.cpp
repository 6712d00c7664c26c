// XPipe (Guan et al., XPipe: Efficient Pipeline Model Parallelism for Multi-GPU DNN Training, arXiv
// 1911.04610): T micro-batches make one update, without a flush between updates. The first
// micro-batch of an update (the bellwether) predicts the weights, the other T - 1 reuse them on
// that stage. On stage k of p:
//
//   forward   s_F = round((p + T - k/2 - 2) / T)
//   backward  s_B = round((T + floor(k/2) - 1) / T)   predicted anew
//
// APPROXIMATE: the formulas and the order come from notes and memory of the paper, not from its
// text (specs/async_systems.md sections 5 and 10). Halves round up. Delta is the optimizer's own
// direction; the paper uses Adam's.
#include <algorithm>
#include <cmath>

#include "harness/plan/chain_partition.h"
#include "harness/plan/one_f_one_b_without_flush.h"

namespace sluice {

static WeightRule xpipe_weights(const ScheduleProblem& problem, const Options&) {
  WeightRule rule{.update = WeightRule::Update::every_backward,
                  .backward = WeightRule::Backward::newest,
                  .accumulate = problem.microbatches_per_update,
                  .micros_per_prediction = problem.microbatches_per_update};
  const int p = static_cast<int>(problem.graph.size()), t = problem.microbatches_per_update;
  const auto round_half_up = [](double x) { return std::max(0, static_cast<int>(std::floor(x + 0.5))); };
  for (int k = 0; k < p; ++k) {
    rule.forward_horizon.push_back(round_half_up((p + t - k / 2.0 - 2) / t));
    rule.backward_horizon.push_back(round_half_up((t + std::floor(k / 2.0) - 1) / t));
  }
  return rule;
}

static Theory xpipe_theory(const ScheduleProblem& problem, const Options&) {
  return theory_of_one_f_one_b_without_flush(problem, problem.microbatches_per_update);
}

extern const System xpipe;
const System xpipe = {
    .name = "xpipe",
    .aliases = {},
    .title = "XPipe (approximate)",
    .citation =
        "Guan et al., XPipe: Efficient Pipeline Model Parallelism for Multi-GPU DNN "
        "Training, 2019 (arXiv 1911.04610); approximate: from notes, not from its text",
    .synchronous = false,
    .accumulates = true,
    .options = {},
    .plan = [](const Problem& p, const Options&) { return balanced_chain(p, p.devices, "xpipe"); },
    .schedule = [](const ScheduleProblem& p, const Options&) { return one_f_one_b_without_flush(p); },
    .weights = xpipe_weights,
    .theory = xpipe_theory,
};

}  // namespace sluice
