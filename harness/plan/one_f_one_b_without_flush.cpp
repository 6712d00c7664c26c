#include "harness/plan/one_f_one_b_without_flush.h"

#include <algorithm>

#include "harness/plan/replicated_schedule.h"

namespace sluice {

Schedule one_f_one_b_without_flush(const ScheduleProblem& problem) {
  return replicated_one_f_one_b(problem, round_robin_in_flight(problem.placement), "asynchronous 1F1B");
}

Theory theory_of_one_f_one_b_without_flush(const ScheduleProblem& problem, int per_update) {
  Theory theory;
  const int p = problem.ranks, n = problem.microbatches, updates = n / per_update;
  if (static_cast<std::size_t>(p) != problem.graph.size()) return theory;
  // Of one filled and drained run; it vanishes as n grows.
  theory.bubble_ratio = static_cast<double>(p - 1) / (n + p - 1);
  for (int r = 0; r < p; ++r) {
    const int lag = p - 1 - r;  // in micro-batches
    theory.in_flight.push_back(std::min(n, lag + 1));
    theory.staleness.push_back(std::min(updates - 1, (lag + per_update - 1) / per_update));
  }
  return theory;
}

}  // namespace sluice
