#include "harness/plan/one_f_one_b_without_flush.h"

#include <algorithm>

#include "harness/base/index.h"
#include "harness/plan/replicated_schedule.h"

namespace sluice {

Schedule one_f_one_b_without_flush(const ScheduleProblem& problem, const Options&) {
  return replicated_one_f_one_b(problem, round_robin_in_flight(problem.placement), "asynchronous 1F1B");
}

Theory theory_of_one_f_one_b_without_flush(const ScheduleProblem& problem, int per_update) {
  Theory theory;
  const int p = problem.ranks, n = problem.microbatches, updates = n / per_update;
  if (p != problem.stages()) return theory;
  theory.bubble_ratio = fill_drain_bubble(p, n);  // of one filled and drained run; it vanishes as n grows
  for (int r = 0; r < p; ++r) {
    const int lag = p - 1 - r;  // in micro-batches
    theory.in_flight.push_back(std::min(n, lag + 1));
    theory.staleness.push_back(std::min(updates - 1, (lag + per_update - 1) / per_update));
  }
  return theory;
}

Theory theory_with_predictions(const ScheduleProblem& problem, const WeightRule& rule) {
  Theory theory = theory_of_one_f_one_b_without_flush(problem, 1);
  const int p = problem.ranks;
  if (p != problem.stages()) return theory;
  const bool read_again = rule.backward == WeightRule::Backward::same_as_forward ||
                          rule.recompute == WeightRule::Recompute::forward_weights;
  theory.weight_versions = list_of(p, [&](int k) {
    const int lag = p - 1 - k, horizon = rule.forward_horizon[k];
    if (horizon == 0) return 1;
    // A clipped first batch, whose lag is 0, looks only as far as the horizon is longer than the lag.
    const bool first_predicts_nothing = !rule.clip_to_lag.empty() && horizon == lag;
    const int predictions = problem.microbatches - (first_predicts_nothing ? 1 : 0);
    return 1 + std::min(predictions, read_again ? lag + 1 : 1);
  });
  return theory;
}

}  // namespace sluice
