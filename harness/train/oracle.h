// Oracle: what a run would have taken that knows the episodes. The regret of a system that adapts is what it takes
// longer.
#pragma once

#include <optional>
#include <span>

#include "harness/case/case.h"
#include "harness/case/prepared.h"

namespace sluice {

// Seconds of `updates` updates on the virtual clock, if at every moment the better plan of these runs, at no cost for
// changing it: the one that the system's planner makes for the devices as fast as they are then, and `plans`. The pipe
// is full all the time. None: episodes slow links down, too, which it does not know.
std::optional<double> oracle_seconds(const RunCase& c, const Prepared& prepared, std::span<const Plan> plans,
                                     std::int64_t updates);

}  // namespace sluice
