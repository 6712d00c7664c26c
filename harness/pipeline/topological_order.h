// The stages of a graph in an order in which each comes after all that feed it.
#pragma once

#include <vector>

#include "harness/pipeline/schedule.h"

namespace sluice {

// Stages of a cycle, and those after it, are left out.
std::vector<StageId> topological_order(const StageGraph& graph);

}  // namespace sluice
