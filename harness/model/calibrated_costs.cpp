#include "harness/model/calibrated_costs.h"

#include <fmt/format.h>

#include <cmath>

#include "harness/base/error.h"
#include "harness/model/layer_kernels.h"

namespace sluice {

std::string calibrated_source(const std::string& calibration) { return "calibrated " + calibration; }

void check_same_device(const Device& device, const Calibration& c) {
  if (std::abs(device.flops - c.peak) <= 0.1 * c.peak) return;
  throw InputError("device '" + device.name + "'",
                   fmt::format("has a peak of {:.4g} FLOP/s, its calibration '{}' one of {:.4g} in {}", device.flops,
                               c.name, c.peak, c.precision),
                   "name a calibration of the same device and precision");
}

CostGraph calibrated_costs(const ModelGraph& model, std::int64_t micro_batch, const Device& device,
                           const Calibration& c) {
  Device measured = device;
  measured.memory_bandwidth = c.memory_bandwidth;
  CostGraph graph = analytic_costs(model, micro_batch, measured);
  graph.source = calibrated_source(c.name);
  graph.launch = c.products.gap;
  const std::vector<Shape> shapes = model.shapes();
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const LayerSpec layer = untied(model.layers[l]);
    std::vector<Shape> inputs;
    for (const int p : layer.inputs) inputs.push_back(p < 0 ? model.inputs[-1 - p].shape : shapes[p]);
    const LayerKernels kernels = layer_kernels(layer, inputs, micro_batch, c);
    LayerCost& cost = graph.layers[l];
    cost.forward = pass_seconds(kernels.forward, c.host_gap);
    cost.input_gradient = pass_seconds(kernels.input_gradient, c.host_gap);
    cost.weight_gradient = pass_seconds(kernels.weight_gradient, c.host_gap);
  }
  return graph;
}

}  // namespace sluice
