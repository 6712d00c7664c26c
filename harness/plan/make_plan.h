// What a system's planner decides, after the checks that do not depend on which system it is.
#pragma once

#include "harness/pipeline/system.h"

namespace sluice {

// Throws InputError at the system's name: more ranks than the cluster has devices, numbers of ranks and micro-batches
// that the system has no order for, or what its planner finds.
PlannedPipeline make_plan(const System& system, const Problem& problem, const Options& options);

}  // namespace sluice
