#include "harness/plan/continuous_1f1b.h"

#include <algorithm>

namespace sluice {

std::vector<int> in_flight_of_1f1b(const Placement& placement) {
  int workers = 0, before = 0;
  for (const auto& ranks : placement.stages) workers += static_cast<int>(ranks.size());
  std::vector<int> result;
  for (const auto& ranks : placement.stages) {
    const int r = static_cast<int>(ranks.size());
    result.push_back(std::max((workers - 1 - before) / r, 0) + 1);
    before += r;
  }
  return result;
}

Schedule continuous_1f1b(const ScheduleProblem& problem) {
  const int n = problem.microbatches;
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(problem.ranks)),
                    .microbatches = n};
  const std::vector<int> in_flight = in_flight_of_1f1b(problem.placement);
  for (int s = 0; s < static_cast<int>(problem.graph.size()); ++s) {
    const auto& replicas = problem.placement.stages[static_cast<std::size_t>(s)];
    const int r = static_cast<int>(replicas.size());
    for (int k = 0; k < r; ++k) {
      auto& ops = schedule.ranks[replicas[static_cast<std::size_t>(k)].index()];
      const int own = (n - k + r - 1) / r;  // batches k, k + r, k + 2 r, ...
      const int first = std::min(in_flight[static_cast<std::size_t>(s)], own);
      ops.reserve(2 * static_cast<std::size_t>(own));
      for (int i = 0; i < first; ++i) ops.push_back(forward_op(s, k + i * r));
      for (int i = 0; i < own; ++i) {
        ops.push_back(backward_op(s, k + i * r));
        if (first + i < own) ops.push_back(forward_op(s, k + (first + i) * r));
      }
    }
  }
  return schedule;
}

Theory theory_of_continuous_1f1b(const ScheduleProblem& problem, int per_update) {
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
