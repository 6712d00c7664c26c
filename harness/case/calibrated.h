// Costs from the calibrations that a cluster's devices name (Device::kernels, in 16 bit kernels_16;
// model/calibrated_costs.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/model/calibration.h"
#include "harness/model/cluster.h"
#include "harness/model/cost_graph.h"
#include "harness/model/model.h"
#include "harness/pipeline/optimizer.h"

namespace sluice {

// "calibrated", or "calibrated,host_gap=68.8us": the time that a host takes to start a kernel, for all devices. With
// ",blocking" after it the host waits for every kernel, as under CUDA_LAUNCH_BLOCKING.
bool is_calibrated(const std::string& costs);

// The calibrations of the cluster's devices for this storage, each once. Throws as cluster_costs.
std::vector<const Calibration*> calibrations_of(const Cluster& cluster, const Storage& storage);

// The seconds are the first device's; LayerCost::on has those of devices with another calibration. Updates are the
// optimizer's, with its state (pipeline/optimizer_costs.h). Throws InputError: costs that cannot be read; a device
// without a calibration for this storage, naming clusters whose devices have one; a calibration of a device with
// another peak; devices of one name that differ.
CostGraph cluster_costs(const std::string& costs, const ModelGraph& model, std::int64_t micro_batch,
                        const Cluster& cluster, const Storage& storage = {}, const OptimizerSpec& optimizer = {});

// CostGraph::source of these costs: "calibrated v100_sxm2_fp32", with each of the cluster's calibrations; ",
// convolutions derived from products" if one has no others; and a given host gap. Throws as cluster_costs.
std::string calibrated_cost_source(const std::string& costs, const ModelGraph& model, const Cluster& cluster,
                                   const Storage& storage = {});

}  // namespace sluice
