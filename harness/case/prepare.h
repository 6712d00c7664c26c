// From a case to what runs it. `sluice plan` and `sluice run` both come through here.
#pragma once

#include "harness/case/case.h"
#include "harness/case/prepared.h"

namespace sluice {

// Fills in everything that follows from the plan of one replica.
void adopt_pipeline(Prepared& p, const PlannedPipeline& planned);

// What a planner is given, at any time of a run; both arguments must outlive it.
Problem problem_of(const Prepared& p, const RunCase& c);

// Throws InputError; the plan's memory is not checked here (see over_memory).
// profiles: where "profile" costs come from; it outlives the result.
Prepared prepare(const RunCase& c, ProfileStore& profiles);

}  // namespace sluice
