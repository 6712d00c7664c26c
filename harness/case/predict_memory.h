// The memory of a prepared case's stages, and whether it fits the devices.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/case/prepared.h"
#include "harness/pipeline/optimizer.h"
#include "harness/sim/memory.h"

namespace sluice {

std::vector<StageMemory> stage_memory(const Prepared& p, const OptimizerSpec& optimizer, const WeightRule& rule);

// Problem::footprint; empty for a published profile, which has costs and no layers. `p` must outlive it.
std::function<Problem::Footprint(std::span<const int> layers)> planned_footprint(const Prepared& p,
                                                                                 const OptimizerSpec& optimizer);

// "rank 1 needs 18 GiB at its peak, its device V100 has 16 GiB", or "" if every rank fits.
std::string over_memory(const Prepared& p, const std::vector<RankMemory>& memory);

}  // namespace sluice
