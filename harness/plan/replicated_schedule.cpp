#include "harness/plan/replicated_schedule.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/pipeline/orders.h"

namespace sluice {

bool has_replicas(const Placement& placement) {
  return std::ranges::any_of(placement.stages, [](const auto& ranks) { return ranks.size() > 1; });
}

std::vector<int> round_robin_in_flight(const Placement& placement) {
  std::vector<int> result(placement.stages.size());
  int later = 0;
  for (std::size_t s = placement.stages.size(); s-- > 0;) {
    const int replicas = static_cast<int>(placement.stages[s].size());
    later += replicas;
    result[s] = (later + replicas - 1) / replicas;
  }
  return result;
}

Schedule replicated_one_f_one_b(const ScheduleProblem& problem, const std::vector<int>& in_flight,
                                const std::string& where) {
  Schedule schedule = empty_schedule(problem);
  for (std::size_t s = 0; s < problem.graph.size(); ++s) {
    const auto& ranks = problem.placement.stages[s];
    const int stage = static_cast<int>(s), replicas = static_cast<int>(ranks.size());
    if (problem.microbatches < replicas)
      throw InputError(where,
                       "stage " + std::to_string(stage) + " has " + std::to_string(replicas) + " replicas for " +
                           std::to_string(problem.microbatches) + " micro-batches",
                       "give every replica at least one");
    for (int q = 0; q < replicas; ++q) {
      auto& ops = schedule.ranks[ranks[q].index()];
      if (!ops.empty()) throw InputError(where, "a rank holds two stages", "this order is for one stage a rank");
      // The replica's share, in order: q, q + r, q + 2r, ...
      const int share = (problem.microbatches - q + replicas - 1) / replicas;
      orders::one_forward_one_backward(
          share, std::min(in_flight[s], share) - 1, [&](int i) { ops.push_back(forward_op(stage, q + i * replicas)); },
          [&](int i) { ops.push_back(backward_op(stage, q + i * replicas)); });
    }
  }
  return schedule;
}

Theory flushed_chain_theory(const ScheduleProblem& problem, const std::vector<int>& in_flight) {
  if (has_replicas(problem.placement)) return {};
  for (std::size_t s = 1; s < problem.graph.size(); ++s)
    if (problem.graph.predecessors[s] != std::vector{StageId(s - 1)}) return {};
  const int p = problem.ranks, m = problem.microbatches;
  Theory theory{.bubble_ratio = static_cast<double>(p - 1) / (m + p - 1)};
  for (int s = 0; s < p; ++s) {
    theory.in_flight.push_back(std::min(m, in_flight[s]));
    theory.weight_versions.push_back(1);
    theory.staleness.push_back(0);
  }
  return theory;
}

}  // namespace sluice
