// The stages of a graph in topological order: each after all that feed it.
#pragma once

#include <vector>

#include "harness/pipeline/schedule.h"

namespace sluice {

// Leaves out stages of a cycle, and those after it.
std::vector<StageId> topological_order(const StageGraph& graph);

}  // namespace sluice
