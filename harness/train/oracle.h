// Oracle: the time of a run that knows the episodes. The regret of a system that adapts is its time beyond the
// oracle's.
#pragma once

#include <optional>
#include <span>

#include "harness/case/case.h"
#include "harness/case/prepared.h"

namespace sluice {

// Seconds of `updates` updates on the virtual clock if the better of these plans runs at every time, without a cost for
// changes: the one that the system's planner makes for the current speeds of the devices, and `plans`. The pipe is
// always full. None: episodes also slow links, which the oracle does not model.
std::optional<double> oracle_seconds(const RunCase& c, const Prepared& prepared, std::span<const Plan> plans,
                                     std::int64_t updates);

}  // namespace sluice
