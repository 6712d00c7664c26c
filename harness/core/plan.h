// Plan: which layers on which devices, replicated how, with what micro-batch: a DAG of stages, not
// a chain.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/cluster.h"
#include "harness/core/cost_graph.h"
#include "harness/core/schedule.h"

namespace sluice {

struct PlanStage {
  std::vector<int> layers;         // ascending indices into the model's layers
  std::vector<DeviceId> devices;   // more than one: data-parallel replicas, `tensor` devices each
  int tensor = 1;                  // devices that share every layer of a replica
  std::vector<int> variants = {};  // per layer: index into LayerCost::variants; empty: as measured
};

// What a planner says of its search; the time comes from whoever called it.
struct SearchReport {
  double objective = 0;
  std::string objective_name;
  std::int64_t states = 0;
  bool complete = true;
};

struct Plan {
  std::vector<PlanStage> stages;  // in topological order
  std::int64_t micro_batch = 1;   // samples
  double objective = 0;           // seconds: what the planner minimised, in its own terms
  std::int64_t states = 0;        // visited by the search
  double search_seconds = 0;
  bool complete = true;  // false: the search was cut short and this is the best so far
  std::optional<SearchReport> search;
};

// Stage of every layer. Throws InputError if a layer is in no stage or in two.
std::vector<int> stage_of_layers(const Plan& plan, std::size_t layers);
// Edges between stages, from the layers' inputs. `inputs[i]` as LayerSpec::inputs.
std::vector<std::pair<StageId, StageId>> stage_edges(const Plan& plan,
                                                     const std::vector<std::vector<int>>& inputs);
StageGraph stage_graph(const Plan& plan, const CostGraph& costs);

// Ranks: the plan's devices in order of first use; rank r runs on devices[r]. A replica that
// several devices share is one rank, on the first of them.
struct RankMap {
  std::vector<DeviceId> devices;
  Placement placement;
};
RankMap ranks_of(const Plan& plan);

// Per stage, on the plan's devices (the slowest replica counts), for one micro-batch.
struct StageCost {
  Seconds forward, input_gradient, weight_gradient, update;
  Bytes parameters;
};
std::vector<StageCost> stage_costs(const Plan& plan, const CostGraph& costs,
                                   const Cluster& cluster);

// Bytes of an activation from one stage to another (all tensors that cross that edge).
Bytes edge_bytes(const Plan& plan, const CostGraph& costs, StageId from, StageId to);

nlohmann::json plan_json(const Plan& plan, const CostGraph& costs, const std::string& system,
                         std::optional<Seconds> simulated);

}  // namespace sluice
