// What a system's planner decides, after the checks that do not depend on which system it is.
//
// All planners (System::candidates) are treated alike. rank=objective: asked once, and the plan of the least objective
// is taken, the paper's rule. rank=simulated: asked under every limit 1, 2, 4, ... on a stage's replicas, from none
// down, as long as there is time (search_seconds, for all together); plain data parallelism is a candidate too where
// stages may have replicas; and the candidate is taken whose update takes least on the virtual clock, memory included.
// Equal ones: the first.
#pragma once

#include "harness/pipeline/system.h"

namespace sluice {

// Throws InputError at the system's name: more ranks than the cluster has devices, numbers of ranks and micro-batches
// that the system has no order for, or what its planner finds.
PlannedPipeline make_plan(const System& system, const Problem& problem, const Options& options);

}  // namespace sluice
