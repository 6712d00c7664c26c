// Where to cut the sequences of a workload, for plans of systems that run them chunk by chunk.
#pragma once

#include <string>

#include "harness/model/cost_graph.h"
#include "harness/pipeline/plan.h"
#include "workloads/models/workload.h"

namespace sluice {

// Sets the plan's cut, and in the costs the part of each layer's time that grows with the pairs of positions. Nothing
// without chunks. Throws InputError, at the system's name, for a model whose sequences cannot be cut.
void cut_sequences(const Workload& workload, const std::string& system, Plan& plan, CostGraph& costs);

}  // namespace sluice
