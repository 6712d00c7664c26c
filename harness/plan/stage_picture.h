// A plan's stage DAG on its devices, as text. A column is a place on the longest path from the start; a row is a path.
// If a path ends in a stage of another row, or begins after one, that stage is named:
//
//   [0: 0]---[1: 1]---[4: 4-5]
//   [2: 2]---[3: 3]--> 4
//
// "4: 4-5" is stage 4 on devices 4 and 5. Edges without a tensor (Plan::imposed_edges) are dotted.
#pragma once

#include <string>

#include "harness/pipeline/plan.h"

namespace sluice {

std::string stage_picture(const Plan& plan, const StageGraph& graph, int width = 100);

// "0-3,7"
std::string device_list(const std::vector<DeviceId>& devices);

// Number of stages on the longest path.
int depth(const StageGraph& graph);

}  // namespace sluice
