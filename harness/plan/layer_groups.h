// Units: the layers as planners move them. A view or a loss travels with the layer before it;
// every other layer is a unit of its own. Contracting neighbours in a topological order leaves the
// graph acyclic.
#pragma once

#include <vector>

#include "harness/model/cost_graph.h"

namespace sluice {

struct Unit {
  std::vector<int> layers;  // ascending
  double forward = 0;       // seconds of one micro-batch
  double backward = 0;      // seconds, I + W
  double parameters = 0;    // bytes
  double output = 0;        // bytes that others read (or nobody: the model's output)
  double kept = 0;          // bytes of all outputs: what the backward needs, roughly
  double seconds() const { return forward + backward; }
};

struct UnitEdge {
  int from = 0, to = 0;  // units
  double bytes = 0;
  int producer = 0, consumer = 0;  // layers
};

struct UnitGraph {
  std::vector<Unit> units;  // in topological order
  std::vector<UnitEdge> edges;
  std::vector<std::vector<int>> successors, predecessors;  // units, in the order of the edges
};

UnitGraph units_of(const CostGraph& costs);

// Layers of the units [first, last), ascending.
std::vector<int> layers_of(const UnitGraph& graph, int first, int last);

// crossing[i]: bytes that go over the cut before unit i, every tensor once. Size units + 1.
std::vector<double> bytes_over_cuts(const UnitGraph& graph);

}  // namespace sluice
