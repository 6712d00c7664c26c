#include "harness/pipeline/system.h"

#include "harness/base/error.h"

namespace sluice {

Schedule empty_schedule(const ScheduleProblem& problem) {
  Schedule schedule = empty_schedule(problem.ranks, problem.microbatches * problem.sequence_chunks);
  schedule.sequence_chunks = problem.sequence_chunks;
  return schedule;
}

std::vector<const System*> with_names_of_their_own(std::vector<const System*> systems) {
  for (std::size_t b = 0; b < systems.size(); ++b) {
    std::vector<std::string> names = systems[b]->aliases;
    names.push_back(systems[b]->name);
    for (const std::string& name : names)
      for (std::size_t a = 0; a < b; ++a)
        if (systems[a]->is_called(name))
          throw InputError("systems", "two of this build are called '" + name + "'",
                           "give one of them another name or alias");
  }
  return systems;
}

void require_a_micro_batch_for_every_rank(const std::string& system, int ranks, int microbatches) {
  if (microbatches < ranks)
    throw InputError(system, std::to_string(microbatches) + " micro-batches for " + std::to_string(ranks) + " ranks",
                     "give every rank at least one micro-batch");
}

}  // namespace sluice
