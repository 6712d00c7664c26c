// The automatic schedule of Zero bubble (Qi et al., ICLR 2024), section 3.1: a search over orders for given times and a
// cap on memory.
#pragma once

#include <span>

#include "harness/pipeline/system.h"

namespace sluice {

// A chain of one stage a rank. `memory`: what a rank may hold, in micro-batches, at least as many as ranks: one for a
// micro-batch between F and the end of I, the problem's weight_stash_share between I and the end of W. One of the
// `alternatives` is returned instead if it fits into the memory and the span of its slowest rank is shorter.
Schedule automatic_zero_bubble_schedule(const ScheduleProblem& problem, double memory,
                                        std::span<const Schedule> alternatives = {});

}  // namespace sluice
