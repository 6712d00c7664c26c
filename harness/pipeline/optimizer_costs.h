// What an optimizer's step takes beyond reading and writing weights and gradients (cost_graph.cpp): its state, and the
// products of those that treat weights as matrices.
#pragma once

#include "harness/model/calibration.h"
#include "harness/model/cost_graph.h"
#include "harness/model/model.h"
#include "harness/pipeline/optimizer.h"

namespace sluice {

// Adds to LayerCost::update of calibrated costs of the model, on a device with this calibration:
//   all           the state, read and written once, at the rate of streams: AdamW in `mixed` moves 28 bytes a
//                 parameter, in fp32 28, plain SGD 12
//   muon          the products of five Newton-Schulz steps
//   rotated_adam  the products with the bases, and those of their averages; not the refresh of the bases
// The step of a whole stage is one fused kernel: its one launch is not counted.
void add_optimizer_state(CostGraph& graph, const ModelGraph& model, const OptimizerSpec& optimizer,
                         const Calibration& calibration);

}  // namespace sluice
