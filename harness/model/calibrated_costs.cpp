#include "harness/model/calibrated_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/base/error.h"
#include "harness/model/layer_kernels.h"

namespace sluice {

std::string calibrated_source(const std::string& calibration) { return "calibrated " + calibration; }

bool derives_convolutions(const ModelGraph& model, const Calibration& calibration) {
  return !calibration.convolutions &&
         std::ranges::any_of(model.layers, [](const LayerSpec& layer) { return convolves(layer.kind); });
}

void check_same_device(const Device& device, const Calibration& c) {
  const double peak = c.is_16_bit() ? device.flops_16 : device.flops;
  if (std::abs(peak - c.peak) <= 0.1 * c.peak) return;
  throw InputError("device '" + device.name + "'",
                   fmt::format("has a peak of {:.4g} FLOP/s, its calibration '{}' one of {:.4g} in {}", peak, c.name,
                               c.peak, c.precision),
                   "name a calibration of the same device and precision");
}

CostGraph calibrated_costs(const ModelGraph& model, std::int64_t micro_batch, const Device& device,
                           const Calibration& c, const Storage& storage) {
  if (c.is_16_bit() != storage.is_16_bit())
    throw InputError("calibration '" + c.name + "'", "is in " + c.precision,
                     std::string("name a calibration in ") + (storage.is_16_bit() ? "16 bit" : "fp32"));
  Device measured = device;
  measured.memory_bandwidth = c.memory_bandwidth * (c.stream_share / kStreaming);
  CostGraph graph = analytic_costs(model, micro_batch, measured, storage);
  graph.source = calibrated_source(c.name);
  graph.launch = c.products.gap;
  const std::vector<Shape> shapes = model.shapes();
  KnownProducts known;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const LayerSpec layer = untied(model.layers[l]);
    const LayerKernels kernels =
        layer_kernels(layer, input_shapes(model, shapes, layer), micro_batch, c, storage, known);
    LayerCost& cost = graph.layers[l];
    const auto seconds = [&](const PassKernels& pass) { return pass_seconds(pass, c.host_gap, c.blocking_launches); };
    cost.forward = seconds(kernels.forward);
    cost.input_gradient = seconds(kernels.input_gradient);
    cost.weight_gradient = seconds(kernels.weight_gradient);
  }
  count_frozen_layers(graph, model);
  return graph;
}

}  // namespace sluice
