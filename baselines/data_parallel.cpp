// Data parallelism: the whole model on every rank, micro-batch i on rank i mod p, gradients all-reduced once an update.
// The other reference: what a pipeline must beat wherever the model fits on one device. p = 2, m = 4:
//
//   rank 0  F0 B0 F2 B2
//   rank 1  F1 B1 F3 B3
#include "harness/pipeline/orders.h"
#include "harness/plan/chain_partition.h"

namespace sluice {

static Plan data_parallel_plan(const Problem& problem, const Options&) {
  Plan plan = balanced_chain(problem, 1, "data_parallel");
  plan.stages[0].devices.clear();
  for (int d = 0; d < problem.devices; ++d) plan.stages[0].devices.emplace_back(d);
  return plan;
}

static Schedule data_parallel_schedule(const ScheduleProblem& problem, const Options&) {
  require_a_micro_batch_for_every_rank("data_parallel", problem.ranks, problem.microbatches);
  return orders::one_micro_batch_at_a_time(problem);
}

static Theory data_parallel_theory(const ScheduleProblem& problem, const Options&) {
  Theory theory = flush_theory(problem.ranks);
  theory.bubble_ratio = data_parallel_bubble(problem.ranks, problem.microbatches);
  theory.in_flight.assign(problem.ranks, 1);
  return theory;
}

extern const System data_parallel = {
    .name = "data_parallel",
    .aliases = {"dp"},
    .title = "Data parallel",
    .citation = "synchronous SGD with all-reduced gradients: the reference for a model that fits on one device",
    .written_from = {WrittenFrom::ours,
                     {},
                     "There is no paper: averaging gradients is the reference where a model fits on one device."},
    .data_parallel = true,
    .plan = data_parallel_plan,
    .schedule = data_parallel_schedule,
    .theory = data_parallel_theory,
};

}  // namespace sluice
