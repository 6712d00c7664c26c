// Costs of a model's layers from the calibration of a device: efficiency by the shape of the work, where analytic_costs
// (cost_graph.h) takes constants.
#pragma once

#include <cstdint>
#include <string>

#include "harness/model/calibration.h"
#include "harness/model/cost_graph.h"
#include "harness/model/model.h"

namespace sluice {

// Bytes as analytic_costs; seconds of layer_kernels.h, of a device of `speed` 1. Updates read weights and gradients and
// write weights, as there, at the rate of the calibration's streams. Throws InputError where the calibration is of 32
// bit and the storage of 16, or the other way round.
CostGraph calibrated_costs(const ModelGraph& model, std::int64_t micro_batch, const Device& device,
                           const Calibration& calibration, const Storage& storage = {});

// "calibrated v100_sxm2_fp32": CostGraph::source, and what a record says.
std::string calibrated_source(const std::string& calibration);

// Whether the model has convolutions whose times the calibration's products imply (kernel_times.h).
bool derives_convolutions(const ModelGraph& model, const Calibration& calibration);

// Throws InputError where a device's peak in the calibration's precision is not the calibration's, within a tenth.
void check_same_device(const Device& device, const Calibration& calibration);

}  // namespace sluice
