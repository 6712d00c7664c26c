// StageMemory: the bytes that a stage holds, from the layers of its model or, where a model has costs and no layers (a
// published profile), from those.
#pragma once

#include <vector>

#include "harness/base/quantities.h"
#include "harness/model/cost_graph.h"
#include "harness/model/model.h"
#include "harness/pipeline/optimizer.h"
#include "harness/pipeline/plan.h"
#include "harness/pipeline/weight_rule.h"
#include "harness/sim/interface_values.h"

namespace sluice {

// Of a whole stage, not of a shard.
struct StageMemory {
  Bytes weights;  // of one version
  Bytes gradients;
  Bytes optimizer;     // momentum, Adam's moments, what predictions keep
  Bytes stash;         // of one micro-batch between F and the end of I or B
  Bytes weight_stash;  // of one micro-batch between I and the end of W
  Bytes input;         // of one micro-batch between F and its recomputation, where F keeps no stash
  // Of the stash, what a stage before or after on the same rank holds too.
  InterfaceValues interface = {};
};

// One for every stage of the plan. micro_batch: samples.
std::vector<StageMemory> stage_memory(const ModelGraph& model, const Plan& plan, std::int64_t micro_batch,
                                      const OptimizerSpec& optimizer, const WeightRule& rule);

// Activations are those of the variants that the plan chose, else the layers' outputs; W keeps nothing of its own.
std::vector<StageMemory> stage_memory(const CostGraph& costs, const Plan& plan, const OptimizerSpec& optimizer);

}  // namespace sluice
