// Costs of a replica over which experts are spread (model/expert_spread.h).
#pragma once

#include <vector>

#include "harness/case/tensor_costs.h"
#include "harness/model/cluster.h"
#include "harness/model/cost_graph.h"
#include "harness/model/model.h"
#include "harness/pipeline/replicas.h"

namespace sluice {

// The devices of the replicas of every stage of a pipeline with a stage a device, where `devices` hold all replicas.
std::vector<std::vector<DeviceId>> groups_of_experts(int devices, const PipelineReplicas& replicas);

// Seconds of an all-to-all in which each member hands in `bytes`, the same for every member and itself, in one step for
// every other member: in step k it sends to the k-th behind it. Transfers of a step share the links and groups of links
// that they both pass through.
Seconds all_to_all_seconds(const Cluster& cluster, const std::vector<DeviceId>& members, Bytes bytes);

// Costs of the replica's model `spread` from the costs of `model`, whose experts are whole. Seconds are those of the
// whole layer times the formula's ratio of part to whole, as in member_costs(); bytes are the part's. All-to-alls are
// added to the forward and the input gradient of the layers that have them: of the slowest of `groups`, or, if `whole`
// was measured on this machine, copies in its memory; measured bytes then hold the rows received. Waiting for other
// replicas is not counted: all do the same.
CostGraph spread_costs(const CostGraph& whole, const ModelGraph& model, const ModelGraph& spread,
                       const Cluster& cluster, const std::vector<std::vector<DeviceId>>& groups,
                       const CostFormula& formula);

}  // namespace sluice
