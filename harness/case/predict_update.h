// What an update of a prepared case takes on the virtual clock: for looking at a plan.
#pragma once

#include "harness/case/prepared.h"
#include "harness/sim/simulate.h"

namespace sluice {

// What the virtual clock takes for the ops of its plan.
Costs costs_of(const Prepared& p);

// The program that a plan's updates repeat, and what one of them takes once others have gone before it.
Program program_of_updates(const Prepared& p);
Seconds simulated_update(const Prepared& p, const Program& program);

}  // namespace sluice
