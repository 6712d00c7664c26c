// For tests of planners: cost graphs and clusters from a few numbers.
#pragma once

#include <string>
#include <vector>

#include "harness/model/cluster.h"
#include "harness/model/cost_graph.h"

namespace sluice {

// A chain of layers: seconds (a third each F, I and W), bytes of parameters and of output.
inline CostGraph chain_costs(const std::vector<double>& seconds, const std::vector<std::int64_t>& parameters,
                             const std::vector<std::int64_t>& outputs) {
  CostGraph graph{.model = "chain", .source = "test", .device = "d", .layers = {}};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    LayerCost layer{.name = "layer" + std::to_string(i), .inputs = {static_cast<int>(i) - 1}};
    layer.forward = layer.input_gradient = layer.weight_gradient = Seconds(seconds[i] / 3);
    layer.parameters = Bytes(i < parameters.size() ? parameters[i] : 0);
    layer.output = Bytes(i < outputs.size() ? outputs[i] : 0);
    graph.layers.push_back(layer);
  }
  return graph;
}

// Machines of equal devices: `inside` bytes/s within a machine, `across` between two.
inline Cluster machines(int count, int devices_each, double inside, double across) {
  Cluster cluster{.name = "machines", .source = "test", .devices = {}, .links = {}};
  const int n = count * devices_each;
  cluster.devices.assign(n, Device{});
  for (int a = 0; a < n; ++a)
    for (int b = a + 1; b < n; ++b)
      cluster.links.push_back({DeviceId(a), DeviceId(b), a / devices_each == b / devices_each ? inside : across});
  return cluster;
}

}  // namespace sluice
