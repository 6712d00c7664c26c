// XPipe (Guan et al., XPipe: Efficient Pipeline Model Parallelism for Multi-GPU DNN Training, arXiv 1911.04610): T
// micro-batches make one update, without a flush between updates. The first micro-batch of an update (the bellwether)
// predicts the weights, the other T - 1 reuse them on that stage. On stage k of p:
//
//   forward   s_F = round((p + T - k/2 - 2) / T)
//   backward  s_B = round((T + floor(k/2) - 1) / T)   predicted anew
//
//   p = 3, T = 2:  s_F = 2 1 1,  s_B = 1 1 1
//
// APPROXIMATE: the formulas and the order come from notes and memory of the paper, not from its text. Halves round up.
// Delta is the optimizer's own direction; the paper, as remembered, uses Adam's.
#include <algorithm>
#include <cmath>

#include "harness/base/index.h"
#include "harness/plan/one_f_one_b_without_flush.h"

namespace sluice {

static int round_half_up(double x) { return std::max(0, static_cast<int>(std::floor(x + 0.5))); }

static WeightRule xpipe_weights(const ScheduleProblem& problem, const Options&) {
  const int p = problem.stages(), t = problem.microbatches_per_update;
  WeightRule rule{.update = WeightRule::Update::every_backward, .backward = WeightRule::Backward::newest};
  rule.accumulate = t;
  rule.microbatches_per_prediction = t;
  rule.forward_horizon = list_of(p, [&](int k) { return round_half_up((p + t - k / 2.0 - 2) / t); });
  rule.backward_horizon = list_of(p, [&](int k) { return round_half_up((t + std::floor(k / 2.0) - 1) / t); });
  return rule;
}

extern const System xpipe = {
    .name = "xpipe",
    .title = "XPipe (approximate)",
    .citation =
        "Guan et al., XPipe: Efficient Pipeline Model Parallelism for Multi-GPU DNN Training, 2019 (arXiv 1911.04610); "
        "approximate: from notes, not from its text",
    .written_from = {WrittenFrom::memory,
                     {{"rounding of halves", WrittenFrom::ours}, {"other optimizers", WrittenFrom::ours}},
                     "Halves are rounded up; optimizers other than Adam predict with their own direction."},
    .synchronous = false,
    .accumulates = true,
    .schedule = one_f_one_b_without_flush,
    .weights = xpipe_weights,
    .theory =
        [](const ScheduleProblem& problem, const Options&) {
          return theory_of_one_f_one_b_without_flush(problem, problem.microbatches_per_update);
        },
};

}  // namespace sluice
