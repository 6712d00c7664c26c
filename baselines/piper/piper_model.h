// The graph as Piper's search sees it: units, the edges of each, and the ways to run each by what
// its stage has chosen. Scoring a plan needs no more than that.
#pragma once

#include <span>
#include <vector>

#include "baselines/piper/piper_search.h"
#include "harness/plan/layer_groups.h"

namespace sluice {

// One way to run a unit; bytes per in- and out-edge are in the order of the unit's edges.
struct PiperChoice {
  int variant = -1;  // index into LayerCost::variants
  double seconds = 0, parameters = 0, in_flight = 0, always = 0;
  std::vector<double> in_sync, out_sync;
};

// The graph as the search sees it: units, edges by unit, choices by mode.
struct PiperModel {
  UnitGraph graph;
  std::vector<std::vector<int>> in_edges, out_edges;  // of each unit: indices of graph.edges
  // What a stage decides for all its units: a tensor degree, and whether it recomputes as a whole.
  // Published variants say themselves which of them recompute.
  struct Mode {
    int tensor = 1;
    bool recompute = false;
  };
  std::vector<Mode> modes;                                     // degrees ascending
  std::vector<std::vector<std::vector<PiperChoice>>> choices;  // [mode][unit]: empty if it cannot
};

// Leaves out what the options forbid.
PiperModel piper_model(const CostGraph& costs, const PiperOptions& options);

// Of the values that enter a stage by these edges, every one once.
double received_bytes(const PiperModel& model, std::span<const int> edges);

}  // namespace sluice
