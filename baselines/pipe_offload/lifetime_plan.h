// Offload by lifetime for size, for any order: activations one after the other, the largest ratio of (start of I less
// end of F) to the seconds of a copy first, each if the rank's link has room for both its copies. A copy out takes the
// first free time of the link after the F, a copy back the last one before the I.
#pragma once

#include <vector>

#include "baselines/pipe_offload/copy_plan.h"

namespace sluice {

// seconds: per stage, of a copy. most: activations of one stage that a rank may hold at a time, where it needs no less;
// 0: whatever can move does.
CopyPlan plan_by_lifetime(const ScheduleProblem& problem, const Schedule& schedule, const std::vector<double>& seconds,
                          int most);

}  // namespace sluice
