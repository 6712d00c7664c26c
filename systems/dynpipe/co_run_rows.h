// From measured co-runs to rows of a forest: a stage was seen to be this much slower under a load; how much slower is
// another stage under the same load? That is what a planner asks that moves layers to and from a slow device.
#pragma once

#include <map>
#include <optional>
#include <span>

#include "harness/base/json.h"
#include "harness/plan/layer_groups.h"
#include "systems/dynpipe/forest.h"

namespace sluice {

// What the forest knows of a stage.
struct CoRunStage {
  double seconds = 0;     // of F and B of a micro-batch, undisturbed
  double parameters = 0;  // bytes
  int layers = 0;         // groups of layers (layer_groups.h)
};
// By name: of the stage that is asked for, of the one that was seen, and that one's slowdown.
std::map<std::string, double> co_run_features(const CoRunStage& asked, const CoRunStage& seen, double seen_slowdown);

// Per layer, seconds of a micro-batch without a load and under one. Rows of `pairs` pairs of stages, which are ranges
// of groups drawn by the seed; stages that take no time are in none.
struct CoRunSeconds {
  std::vector<double> alone, contended;
};
ForestRows co_run_rows(const LayerGroupGraph& graph, const CoRunSeconds& seconds, int pairs, std::uint64_t seed);

// Rows of one file (read_forest_rows): {"schema": "sluice/co_run/1", "rows": [...]}.
Json co_run_json(const ForestRows& rows);

// Of the forest that DynPipe grows.
inline ForestOptions slowdown_forest_options() { return {.trees = 100, .min_leaf = 2}; }

// What a forest that learned from the rows of some loads says of the other loads: 70 % of the parts, drawn by the seed,
// with all of `besides`, are learned from. None: fewer than two parts.
struct HeldOutLoads {
  std::size_t learned = 0, held_out = 0;  // parts
  ForestError error;
  double mean_squared_of_seen = 0;  // of taking the slowdown that was seen
};
std::optional<HeldOutLoads> hold_out_loads(std::span<const ForestRows> parts, const ForestRows& besides,
                                           const ForestOptions& options);

}  // namespace sluice
