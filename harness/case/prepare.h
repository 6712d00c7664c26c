// Prepares a case for `sluice plan` and `sluice run`.
#pragma once

#include "harness/case/case.h"
#include "harness/case/prepared.h"

namespace sluice {

// Sets everything that follows from the plan of one replica.
void adopt_pipeline(Prepared& p, const PlannedPipeline& planned);

// The input of a planner, at any time of a run; both arguments must outlive it.
Problem problem_of(const Prepared& p, const RunCase& c);

// Throws InputError; the plan's memory is not checked here (see over_memory).
// profiles: where "profile" costs come from; it outlives the result.
Prepared prepare(const RunCase& c, ProfileStore& profiles);

}  // namespace sluice
