// The plans that GraphPipe's searches have found.
#pragma once

#include <vector>

#include "harness/pipeline/system.h"
#include "systems/graphpipe/operators.h"
#include "systems/graphpipe/stage_search_space.h"

namespace sluice {

// What the stages that were found wait for, and how many micro-batches they hold.
enum class Pipelining {
  graph,                   // for the model's edges; as many as the longest path after them needs
  graph_held_as_sequence,  // for the model's edges; as many as in a sequence of the stages
  sequence,                // every stage for the one before it, needed or not: sequential pipelining
};

class Candidates {
 public:
  // Both must outlive it.
  Candidates(const Problem& problem, const Operators& operators) : problem_(problem), operators_(operators) {}

  // The stages found, as a plan of each kind that is not known yet.
  void add(const StageSearchResult& found, const std::vector<Pipelining>& kinds);

  double min_objective() const;  // seconds per sample of the slowest stage; infinity: there is no plan yet

  // Throws InputError if there is none, `memory` being what each device has; where a search was cut short, a balanced
  // sequence of single devices stands in.
  std::vector<PlannedPipeline> plans(Bytes memory);

 private:
  PlannedPipeline plan_of(const StageSearchResult& found, Pipelining kind) const;
  double per_sample(double per_micro_batch) const {
    return per_micro_batch / static_cast<double>(problem_.costs.micro_batch);
  }

  const Problem& problem_;
  const Operators& operators_;
  std::vector<PlannedPipeline> plans_;  // search.objective: seconds per sample of the slowest stage
  std::int64_t states_ = 0;
  bool complete_ = true;
};

}  // namespace sluice
