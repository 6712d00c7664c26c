// One device, one process, no pipeline: the row that every comparison shows. The same micro-batches with accumulated
// gradients as the pipelines, so that the arithmetic is the same; microbatches = 1 is the whole batch at once. m = 2:
//
//   rank 0  F0 B0 F1 B1
#include "harness/pipeline/orders.h"
#include "harness/plan/chain_partition.h"

namespace sluice {

static Theory single_device_theory(const ScheduleProblem&, const Options&) {
  Theory theory = flush_theory(1);
  theory.bubble_ratio = 0.0;
  theory.in_flight = {1};
  return theory;
}

extern const System single_device = {
    .name = "single_device",
    .title = "Single device",
    .citation = "plain training in one process: the reference",
    .written_from = {WrittenFrom::ours, {}, "There is no paper: one device is the reference of every comparison."},
    .one_process = true,
    .plan = [](const Problem& problem, const Options&) { return balanced_chain(problem, 1, "single_device"); },
    .schedule = [](const ScheduleProblem& problem,
                   const Options&) { return orders::one_micro_batch_at_a_time(problem); },
    .theory = single_device_theory,
};

}  // namespace sluice
