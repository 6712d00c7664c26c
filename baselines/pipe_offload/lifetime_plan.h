// Offload by lifetime for size, for any order, rank by rank: of the activations that it holds at its peak, the one with
// the largest ratio of (start of I less end of F) to the seconds of a copy moves, if the rank's link has room for both
// copies and it is away at the peak; then the same again at the new peak. A copy out takes the first free time of the
// link after the F, a copy back the last one before the I.
#pragma once

#include <vector>

#include "baselines/pipe_offload/copy_plan.h"

namespace sluice {

// seconds: per stage, of a copy. most: activations of one stage that a rank may hold at a time; 0: as few as the link
// allows.
CopyPlan plan_by_lifetime(const ScheduleProblem& problem, const Schedule& schedule, const std::vector<double>& seconds,
                          int most);

}  // namespace sluice
