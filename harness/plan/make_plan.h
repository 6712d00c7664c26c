// The plan of a system, after the checks that are the same for all systems.
//
// All planners (System::candidates) are treated alike. rank=objective: the planner is called once, and the plan with
// the lowest objective is taken, as in the papers. rank=simulated: it is called under every limit on a stage's
// replicas, from none down (..., 4, 2, 1), while there is time (search_seconds, for all together). If stages may have
// replicas, plain data parallelism is also a candidate. The candidate with the fastest update on the virtual clock that
// fits the memory and can divide the batch is taken, each with the micro-batches that it will have; of equal ones, the
// first.
#pragma once

#include "harness/pipeline/system.h"

namespace sluice {

// Throws InputError at the system's name: more ranks than the cluster has devices, numbers of ranks and micro-batches
// without an order of the system, or errors of its planner.
PlannedPipeline make_plan(const System& system, const Problem& problem, const Options& options);

}  // namespace sluice
