// Costs of a model's layers from the calibration of a device: efficiency depends on the shape of the work;
// analytic_costs (cost_graph.h) uses constants.
#pragma once

#include <cstdint>
#include <string>

#include "harness/model/calibration.h"
#include "harness/model/cost_graph.h"
#include "harness/model/model.h"

namespace sluice {

// Bytes as analytic_costs; seconds of layer_kernels.h, for a device of `speed` 1. Updates read weights and gradients
// and write weights, as there, at the rate of the calibration's streams (with an optimizer's state:
// pipeline/optimizer_costs.h). Throws InputError if one of calibration and storage is 16 bit and the other is not.
CostGraph calibrated_costs(const ModelGraph& model, std::int64_t micro_batch, const Device& device,
                           const Calibration& calibration, const Storage& storage = {});

// "calibrated v100_sxm2_fp32": CostGraph::source, also in records.
std::string calibrated_source(const std::string& calibration);

// Whether the model has convolutions whose times the calibration's products imply (kernel_times.h).
bool derives_convolutions(const ModelGraph& model, const Calibration& calibration);

// Throws InputError if a device's peak in the calibration's precision differs from the calibration's by over a tenth.
void check_same_device(const Device& device, const Calibration& calibration);

}  // namespace sluice
