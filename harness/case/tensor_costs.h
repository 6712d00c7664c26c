// Costs of a device's part of the layers that a group shares (model/tensor_split.h).
#pragma once

#include <functional>

#include "harness/model/cluster.h"
#include "harness/model/cost_graph.h"
#include "harness/model/tensor_split.h"

namespace sluice {

// The costs of a model by a formula, for micro-batches of the size at hand.
using CostFormula = std::function<CostGraph(const ModelGraph&)>;

// From the costs of whole layers, for TensorModel::member: seconds are those of the whole layer times the ratio of the
// two by formula, which makes costs of that formula those of the part itself and measured ones as good as the ratio;
// bytes are the part's. Sums over the group are added to the forward and the input gradient of the layers that have
// them: rings of neighbouring devices, at the cluster's first ones. Throws InputError for costs with published
// variants, and for a cluster with less than a group of devices.
CostGraph member_costs(const CostGraph& whole, const TensorModel& model, const Cluster& cluster,
                       const CostFormula& formula);

// The same for a model whose words are divided (model/word_slices.h): of TensorModel::all, the slices as member_costs()
// and the other layers as in `whole`.
CostGraph word_slice_costs(const CostGraph& whole, const TensorModel& words, const Cluster& cluster,
                           const CostFormula& formula);

// Of a ring all-reduce of `bytes` over the cluster's first `degree` devices.
Seconds sum_seconds(const Cluster& cluster, int degree, Bytes bytes);

}  // namespace sluice
