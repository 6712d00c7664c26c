// Groups of layers that planners move together: a view or a loss stays with the layer before it, because a stage with
// only a view would cost a message for no work. Every other layer is a group of its own.
#pragma once

#include <vector>

#include "harness/model/cost_graph.h"

namespace sluice {

struct LayerGroup {
  std::vector<int> layers;  // ascending
  double forward = 0;       // seconds of one micro-batch
  double backward = 0;      // seconds, I + W
  double parameters = 0;    // bytes of the weights
  double gradients = 0;     // bytes of their gradients, as replicas sum them
  double resident = 0;      // bytes of both, and of the fp32 copies of mixed precision
  double output = 0;        // bytes that other groups read, or the model's output
  double kept = 0;          // bytes of all its layers' outputs: roughly what the backward needs
  double seconds() const { return forward + backward; }
};

// A layer of one group reads the output of a layer of another.
struct LayerGroupEdge {
  int from = 0, to = 0;  // groups
  double bytes = 0;
  int producer = 0, consumer = 0;  // layers
};

struct LayerGroupGraph {
  std::vector<LayerGroup> groups;                          // in the order of their first layers
  std::vector<LayerGroupEdge> edges;                       // by consumer, then in the order of its inputs
  std::vector<std::vector<int>> successors, predecessors;  // of every group, each once, in the order of the edges
};

// A view or a loss is in the group of the layer before it in the model's order. Each group is then a range of
// consecutive layers, and the groups are in topological order.
LayerGroupGraph layer_groups(const CostGraph& costs);

// A view or a loss is in the group of the layer whose output it reads first, at any place in the order. A view of the
// model's input is in the group of the layer that reads it, if that is one layer only. Branches whose layers alternate
// in the order stay in separate groups.
LayerGroupGraph layer_groups_by_producer(const CostGraph& costs);

// Layers of the groups [first, last) of layer_groups(), ascending.
std::vector<int> layers_of(const LayerGroupGraph& graph, int first, int last);

// crossing[i]: bytes over the cut before group i of layer_groups(), each tensor once. Size groups + 1.
std::vector<double> bytes_over_cuts(const LayerGroupGraph& graph);

}  // namespace sluice
