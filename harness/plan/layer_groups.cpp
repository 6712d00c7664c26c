#include "harness/plan/layer_groups.h"

#include <algorithm>
#include <map>

namespace sluice {

namespace {

std::vector<int> group_by_order(const CostGraph& costs) {
  std::vector<int> group_of;
  int groups = 0;
  for (const LayerCost& layer : costs.layers) {
    if (!layer.fused || groups == 0) ++groups;
    group_of.push_back(groups - 1);
  }
  return group_of;
}

std::vector<int> group_by_producer(const CostGraph& costs) {
  const std::size_t n = costs.layers.size();
  std::vector<int> readers(n);
  for (const LayerCost& layer : costs.layers)
    for (const int producer : layer.inputs)
      if (producer >= 0) ++readers[producer];
  std::vector<int> group_of(n, -1);
  std::vector<bool> is_view_of_input(n, false);
  int groups = 0;
  for (std::size_t l = 0; l < n; ++l) {
    const LayerCost& layer = costs.layers[l];
    const int first = layer.inputs.empty() ? -1 : layer.inputs.front();
    const auto producer = static_cast<std::size_t>(std::max(first, 0));
    is_view_of_input[l] = layer.fused && (first < 0 || is_view_of_input[producer]);
    const bool is_only_reader_of_a_view = first >= 0 && is_view_of_input[producer] && readers[producer] == 1;
    group_of[l] = first >= 0 && (layer.fused || is_only_reader_of_a_view) ? group_of[producer] : groups++;
  }
  return group_of;
}

LayerGroupGraph graph_of(const CostGraph& costs, const std::vector<int>& group_of) {
  const std::size_t n = costs.layers.size();
  LayerGroupGraph graph;
  for (std::size_t l = 0; l < n; ++l) {
    const LayerCost& layer = costs.layers[l];
    if (static_cast<std::size_t>(group_of[l]) == graph.groups.size()) graph.groups.emplace_back();
    LayerGroup& group = graph.groups[group_of[l]];
    group.layers.push_back(static_cast<int>(l));
    group.forward += layer.forward.value;
    group.backward += (layer.input_gradient + layer.weight_gradient).value;
    group.parameters += static_cast<double>(layer.parameters.value);
    group.gradients += static_cast<double>(costs.gradients(layer.reduced()).value);
    group.resident += static_cast<double>((costs.resident(layer.trained()) + layer.frozen).value);
    group.kept += static_cast<double>(layer.kept().value);
  }
  std::vector<bool> read(n), read_elsewhere(n);
  graph.successors.resize(graph.groups.size());
  graph.predecessors.resize(graph.groups.size());
  for (std::size_t l = 0; l < n; ++l) {
    const LayerCost& layer = costs.layers[l];
    const int to = group_of[l];
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      if (layer.inputs[i] < 0) continue;
      const auto producer = static_cast<std::size_t>(layer.inputs[i]);
      const int from = group_of[producer];
      read[producer] = true;
      if (from == to) continue;
      read_elsewhere[producer] = true;
      const Bytes bytes = layer.input_bytes.empty() ? costs.layers[producer].output : layer.input_bytes[i];
      graph.edges.push_back({from, to, static_cast<double>(bytes.value), layer.inputs[i], static_cast<int>(l)});
      auto& after = graph.successors[from];
      if (std::ranges::find(after, to) != after.end()) continue;
      after.push_back(to);
      graph.predecessors[to].push_back(from);
    }
  }
  for (std::size_t l = 0; l < n; ++l)
    if (read_elsewhere[l] || !read[l])
      graph.groups[group_of[l]].output += static_cast<double>(costs.layers[l].output.value);
  return graph;
}

}  // namespace

LayerGroupGraph layer_groups(const CostGraph& costs) { return graph_of(costs, group_by_order(costs)); }

LayerGroupGraph layer_groups_by_producer(const CostGraph& costs) { return graph_of(costs, group_by_producer(costs)); }

std::vector<int> layers_of(const LayerGroupGraph& graph, int first, int last) {
  std::vector<int> layers;
  for (int g = first; g < last; ++g) {
    const auto& own = graph.groups[g].layers;
    layers.insert(layers.end(), own.begin(), own.end());
  }
  return layers;
}

std::vector<double> bytes_over_cuts(const LayerGroupGraph& graph) {
  struct Tensor {
    int from = 0, last_reader = 0;  // groups
    double bytes = 0;               // the most that a reader asks for
  };
  std::map<int, Tensor> tensors;  // by producing layer
  for (const LayerGroupEdge& e : graph.edges) {
    Tensor& tensor = tensors[e.producer];
    tensor.from = e.from;
    tensor.last_reader = std::max(tensor.last_reader, e.to);
    tensor.bytes = std::max(tensor.bytes, e.bytes);
  }
  std::vector<double> crossing(graph.groups.size() + 1, 0.0);
  for (const auto& [producer, tensor] : tensors)
    for (int cut = tensor.from + 1; cut <= tensor.last_reader; ++cut) crossing[cut] += tensor.bytes;
  return crossing;
}

}  // namespace sluice
