// The automatic schedule of Zero bubble (Qi et al., ICLR 2024), section 3.1: a search over orders for given times and a
// cap on memory.
#pragma once

#include "harness/pipeline/system.h"

namespace sluice {

// A chain of one stage a rank. `memory`: micro-batches that a rank may hold between F and the end of W, at least as
// many as ranks, whatever share of them W keeps.
Schedule automatic_zero_bubble_schedule(const ScheduleProblem& problem, int memory);

}  // namespace sluice
