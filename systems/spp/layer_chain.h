// A model's layer groups (harness/plan/layer_groups.h) as one chain, the view of planners that cut only along it: what
// each group costs, and the bytes that cross every cut. Branches become a chain in the order they are listed in; a skip
// connection crosses every cut that it spans.
#pragma once

#include <vector>

#include "harness/model/cost_graph.h"

namespace sluice {

// Of one micro-batch on a device of speed 1; seconds and bytes. n layer groups.
struct LayerChain {
  std::vector<double> forward, backward;  // [n]; backward: input and weight gradient
  std::vector<double> parameters;         // [n] bytes of their gradients
  std::vector<double> outputs;            // [n] bytes of all its layers' outputs
  // [n - 1]: what crosses the cut after group k, down (activations) and up (their gradients).
  std::vector<double> cut_forward, cut_backward;
  std::vector<int> first_layer;  // [n + 1]: of each group, and the number of layers
  int groups() const { return static_cast<int>(forward.size()); }
};

LayerChain layer_chain(const CostGraph& costs);

// The layers of groups [first, last).
std::vector<int> layers_of(const LayerChain& chain, int first, int last);

}  // namespace sluice
