// Data parallelism: the whole model on every rank, micro-batch i on rank i mod p, gradients
// all-reduced once an update. The other reference: what a pipeline must beat wherever the model
// fits on one device.
#include "harness/base/error.h"
#include "harness/plan/chain_partition.h"

namespace sluice {

static Plan data_parallel_plan(const Problem& problem, const Options&) {
  Plan plan = balanced_chain(problem, 1, "data_parallel");
  if (static_cast<std::size_t>(problem.devices) > problem.cluster.devices.size())
    throw InputError("data_parallel",
                     std::to_string(problem.devices) + " ranks on a cluster of " +
                         std::to_string(problem.cluster.devices.size()) + " devices",
                     "use fewer ranks or a larger cluster");
  plan.stages[0].devices.clear();
  for (int d = 0; d < problem.devices; ++d) plan.stages[0].devices.emplace_back(d);
  return plan;
}

static Schedule data_parallel_schedule(const ScheduleProblem& problem, const Options&) {
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(problem.ranks)),
                    .microbatches = problem.microbatches};
  if (problem.microbatches < problem.ranks)
    throw InputError(
        "data_parallel",
        std::to_string(problem.microbatches) + " micro-batches for " + std::to_string(problem.ranks) + " ranks",
        "give every rank at least one micro-batch");
  for (int i = 0; i < problem.microbatches; ++i) {
    auto& ops = schedule.ranks[problem.placement.rank_of(StageId(0), Micro(i)).index()];
    ops.push_back(forward_op(0, i));
    ops.push_back(backward_op(0, i));
  }
  return schedule;
}

static Theory data_parallel_theory(const ScheduleProblem& problem, const Options&) {
  const auto p = static_cast<std::size_t>(problem.ranks);
  const int m = problem.microbatches;
  const int most = (m + problem.ranks - 1) / problem.ranks;
  return {.bubble_ratio = 1 - static_cast<double>(m) / (static_cast<double>(most) * problem.ranks),
          .in_flight = std::vector<int>(p, 1),
          .weight_versions = std::vector<int>(p, 1),
          .staleness = std::vector<int>(p, 0)};
}

extern const System data_parallel;
const System data_parallel = {
    .name = "data_parallel",
    .aliases = {"dp"},
    .title = "Data parallel",
    .citation =
        "synchronous SGD with all-reduced gradients: the reference for a model that fits on one "
        "device",
    .synchronous = true,
    .data_parallel = true,
    .options = {},
    .plan = data_parallel_plan,
    .schedule = data_parallel_schedule,
    .weights = [](const ScheduleProblem&, const Options&) { return WeightRule{}; },
    .theory = data_parallel_theory,
};

}  // namespace sluice
