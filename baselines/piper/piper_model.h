// The graph as Piper's search sees it: layer groups, the edges of each, and the choices there are for running each by
// what its stage has decided. Scoring a plan needs no more than that.
#pragma once

#include <span>
#include <vector>

#include "baselines/piper/piper_plan.h"
#include "harness/model/cost_graph.h"
#include "harness/plan/layer_groups.h"

namespace sluice {

// One choice for running a layer group, the paper's TMPC. Of one micro-batch: seconds p and bytes in flight a; bytes of
// parameters w and bytes held always b; further bytes per in- and out-edge (sync), in the order of the group's edges.
struct PiperChoice {
  int variant = -1;  // index into LayerCost::variants
  double seconds = 0, parameters = 0, in_flight = 0, always = 0;
  std::vector<double> in_sync, out_sync;
};

struct PiperModel {
  LayerGroupGraph graph;
  std::vector<std::vector<int>> in_edges, out_edges;  // of each group: indices of graph.edges
  // What a stage decides for all its groups: a tensor degree t, and whether it recomputes as a whole. Published
  // variants say themselves which of them recompute.
  struct Mode {
    int tensor = 1;
    bool recompute = false;
  };
  std::vector<Mode> modes;                                     // degrees ascending
  std::vector<std::vector<std::vector<PiperChoice>>> choices;  // [mode][group]: empty if it cannot
};

// Leaves out what the options forbid.
PiperModel piper_model(const CostGraph& costs, const PiperOptions& options);

// Of the values that enter a stage by these edges, every one once.
double received_bytes(const PiperModel& model, std::span<const int> edges);

// Scores a plan from scratch: the slowest stage's TPS; infinity if a stage does not fit or too many devices are used.
double piper_seconds(const CostGraph& costs, const PiperOptions& options, const std::vector<PiperStage>& stages);

}  // namespace sluice
