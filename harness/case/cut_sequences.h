// Where the sequences of a workload are cut, for plans of systems that run them chunk by chunk.
#pragma once

#include <string>

#include "harness/model/cost_graph.h"
#include "harness/pipeline/plan.h"
#include "workloads/models/workload.h"

namespace sluice {

// Fills in the plan's cut, and in the costs what of each layer's time goes with the pairs of positions. Nothing where
// the plan leaves sequences whole. Throws InputError, at the system's name, for a model whose sequences cannot be cut.
void cut_sequences(const Workload& workload, const std::string& system, Plan& plan, CostGraph& costs);

}  // namespace sluice
