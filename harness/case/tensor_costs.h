// Costs of one device's part of tensor-parallel layers (model/tensor_split.h).
#pragma once

#include <functional>

#include "harness/model/cluster.h"
#include "harness/model/cost_graph.h"
#include "harness/model/tensor_split.h"

namespace sluice {

// The costs of a model by a formula, for one size of micro-batches.
using CostFormula = std::function<CostGraph(const ModelGraph&)>;

// Costs of TensorModel::member from the costs of whole layers. Seconds are those of the whole layer times the formula's
// ratio of part to whole: exact for costs by this formula, an estimate for measured ones. Bytes are the part's. Sums
// over the group are added to the forward and the input gradient of the layers that have them: rings of neighbouring
// devices, at the cluster's first ones. Throws InputError for costs with published variants, and for a cluster with
// fewer devices than a group.
CostGraph member_costs(const CostGraph& whole, const TensorModel& model, const Cluster& cluster,
                       const CostFormula& formula);

// The same for a model with vocabulary slices (model/word_slices.h): costs of TensorModel::all, the slices as
// member_costs() and the other layers as in `whole`.
CostGraph word_slice_costs(const CostGraph& whole, const TensorModel& words, const Cluster& cluster,
                           const CostFormula& formula);

// Seconds of a ring all-reduce of `bytes` over the cluster's first `degree` devices.
Seconds sum_seconds(const Cluster& cluster, int degree, Bytes bytes);

}  // namespace sluice
