#include "harness/pipeline/system.h"

#include "harness/base/error.h"

namespace sluice {

Schedule empty_schedule(const ScheduleProblem& problem) {
  Schedule schedule = empty_schedule(problem.ranks, problem.microbatches * problem.sequence_chunks);
  schedule.sequence_chunks = problem.sequence_chunks;
  return schedule;
}

void require_a_micro_batch_for_every_rank(const std::string& system, int ranks, int microbatches) {
  if (microbatches < ranks)
    throw InputError(system, std::to_string(microbatches) + " micro-batches for " + std::to_string(ranks) + " ranks",
                     "give every rank at least one micro-batch");
}

}  // namespace sluice
