// The order of V-shaped stages that is shortest for given times among those that keep within a memory limit: building
// blocks of many shapes are repeated, rated, improved and their gaps filled.
#pragma once

#include <vector>

#include "harness/pipeline/system.h"

namespace sluice {

// `activations`: of one stage (two are a micro-batch of a rank), the most that a rank may hold between an F and the end
// of its W. Times are the problem's costs and latency; without costs F = I = W. Throws InputError where no block fits.
std::vector<std::vector<Op>> shortest_v_order(const ScheduleProblem& problem, int activations);

// The fewest activations of one stage that a V-shaped order with a block repeated every six slots can do with: those of
// V-Min.
int fewest_activations(int ranks, int microbatches);

}  // namespace sluice
