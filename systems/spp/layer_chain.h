// A model's layers as one chain, the view of planners that cut only along it: prefix sums, and the
// bytes that cross every cut. Branches become a chain in the order they are listed in; a skip
// connection crosses every cut that it spans.
#pragma once

#include <vector>

#include "harness/model/cost_graph.h"
#include "harness/pipeline/plan.h"

namespace sluice {

// Of one micro-batch on a device of speed 1; seconds and bytes. The n units are layers, each with
// those that ride with it.
struct LayerChain {
  std::vector<double> forward, backward;  // [n]; backward: input and weight gradient
  std::vector<double> parameters;         // [n] bytes
  std::vector<double> outputs;            // [n] bytes of all its layers' outputs
  // [n - 1]: what crosses the cut after unit k, down (activations) and up (their gradients).
  std::vector<double> cut_forward, cut_backward;
  std::vector<int> first_layer;  // [n + 1]: of each unit, and the number of layers
  int units() const { return static_cast<int>(forward.size()); }
};

LayerChain layer_chain(const CostGraph& costs);

// The layers of units [first, last).
std::vector<int> layers_of(const LayerChain& chain, int first, int last);

}  // namespace sluice
