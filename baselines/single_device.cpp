// One device, one process, no pipeline: the row that every comparison shows. The same micro-batches
// with accumulated gradients as the pipelines, so that the arithmetic is the same; microbatches = 1
// is the whole batch at once.
#include "harness/plan/chain_partition.h"

namespace sluice {

static Schedule single_device_schedule(const ScheduleProblem& problem, const Options&) {
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(1), .microbatches = problem.microbatches};
  for (int i = 0; i < problem.microbatches; ++i) {
    for (std::size_t s = 0; s < problem.graph.size(); ++s)
      schedule.ranks[0].push_back(forward_op(static_cast<int>(s), i));
    for (std::size_t s = problem.graph.size(); s-- > 0;)
      schedule.ranks[0].push_back(backward_op(static_cast<int>(s), i));
  }
  return schedule;
}

extern const System single_device;
const System single_device = {
    .name = "single_device",
    .aliases = {},
    .title = "Single device",
    .citation = "plain training in one process: the reference",
    .synchronous = true,
    .one_process = true,
    .options = {},
    .plan = [](const Problem& p, const Options&) { return balanced_chain(p, 1, "single_device"); },
    .schedule = single_device_schedule,
    .weights = [](const ScheduleProblem&, const Options&) { return WeightRule{}; },
    .theory =
        [](const ScheduleProblem&, const Options&) {
          return Theory{.bubble_ratio = 0.0, .in_flight = {1}, .weight_versions = {1}, .staleness = {0}};
        },
};

}  // namespace sluice
