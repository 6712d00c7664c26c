#include "harness/plan/layer_groups.h"

#include <algorithm>
#include <map>

namespace sluice {

UnitGraph units_of(const CostGraph& costs) {
  UnitGraph graph;
  std::vector<int> unit_of;
  for (std::size_t l = 0; l < costs.layers.size(); ++l) {
    const LayerCost& layer = costs.layers[l];
    if (!layer.fused || graph.units.empty()) graph.units.emplace_back();
    Unit& unit = graph.units.back();
    unit.layers.push_back(static_cast<int>(l));
    unit.forward += layer.forward.value;
    unit.backward += (layer.input_gradient + layer.weight_gradient).value;
    unit.parameters += static_cast<double>(layer.parameters.value);
    unit.kept += static_cast<double>(layer.output.value);
    unit_of.push_back(static_cast<int>(graph.units.size()) - 1);
  }
  std::vector<bool> read(costs.layers.size()), read_elsewhere(costs.layers.size());
  graph.successors.resize(graph.units.size());
  graph.predecessors.resize(graph.units.size());
  for (std::size_t l = 0; l < costs.layers.size(); ++l) {
    const LayerCost& layer = costs.layers[l];
    for (std::size_t n = 0; n < layer.inputs.size(); ++n) {
      if (layer.inputs[n] < 0) continue;
      const auto p = static_cast<std::size_t>(layer.inputs[n]);
      read[p] = true;
      if (unit_of[p] == unit_of[l]) continue;
      read_elsewhere[p] = true;
      const Bytes bytes = layer.input_bytes.empty() ? costs.layers[p].output : layer.input_bytes[n];
      graph.edges.push_back(
          {unit_of[p], unit_of[l], static_cast<double>(bytes.value), layer.inputs[n], static_cast<int>(l)});
      auto& after = graph.successors[static_cast<std::size_t>(unit_of[p])];
      if (std::ranges::find(after, unit_of[l]) != after.end()) continue;
      after.push_back(unit_of[l]);
      graph.predecessors[static_cast<std::size_t>(unit_of[l])].push_back(unit_of[p]);
    }
  }
  for (std::size_t l = 0; l < costs.layers.size(); ++l)
    if (read_elsewhere[l] || !read[l])
      graph.units[static_cast<std::size_t>(unit_of[l])].output += static_cast<double>(costs.layers[l].output.value);
  return graph;
}

std::vector<int> layers_of(const UnitGraph& graph, int first, int last) {
  std::vector<int> layers;
  for (int u = first; u < last; ++u) {
    const auto& own = graph.units[static_cast<std::size_t>(u)].layers;
    layers.insert(layers.end(), own.begin(), own.end());
  }
  return layers;
}

std::vector<double> bytes_over_cuts(const UnitGraph& graph) {
  struct Reach {
    int from = 0, to = 0;
    double bytes = 0;
  };
  std::map<int, Reach> reach;  // by producing layer: its unit, its last reader, the most it sends
  for (const UnitEdge& e : graph.edges) {
    Reach& r = reach[e.producer];
    r.from = e.from;
    r.to = std::max(r.to, e.to);
    r.bytes = std::max(r.bytes, e.bytes);
  }
  std::vector<double> crossing(graph.units.size() + 1, 0.0);
  for (const auto& [producer, r] : reach)
    for (int cut = r.from + 1; cut <= r.to; ++cut) crossing[static_cast<std::size_t>(cut)] += r.bytes;
  return crossing;
}

}  // namespace sluice
