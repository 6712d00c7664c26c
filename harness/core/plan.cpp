#include "harness/core/plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "harness/core/error.h"

namespace sluice {

std::vector<int> stage_of_layers(const Plan& plan, std::size_t layers) {
  std::vector<int> stage_of(layers, -1);
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const int layer : plan.stages[s].layers) {
      if (layer < 0 || static_cast<std::size_t>(layer) >= layers)
        throw InputError("plan", "stage " + std::to_string(s) + " names layer " +
                                     std::to_string(layer) + ", which does not exist");
      int& owner = stage_of[static_cast<std::size_t>(layer)];
      if (owner >= 0)
        throw InputError("plan", "layer " + std::to_string(layer) + " is in stages " +
                                     std::to_string(owner) + " and " + std::to_string(s));
      owner = static_cast<int>(s);
    }
  const auto missing = std::ranges::find(stage_of, -1);
  if (missing != stage_of.end())
    throw InputError("plan",
                     "layer " + std::to_string(missing - stage_of.begin()) + " is in no stage");
  return stage_of;
}

std::vector<std::pair<StageId, StageId>> stage_edges(const Plan& plan,
                                                     const std::vector<std::vector<int>>& inputs) {
  const std::vector<int> stage_of = stage_of_layers(plan, inputs.size());
  std::set<std::pair<StageId, StageId>> edges;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (const int p : inputs[i])
      if (p >= 0 && stage_of[static_cast<std::size_t>(p)] != stage_of[i])
        edges.insert({StageId(stage_of[static_cast<std::size_t>(p)]), StageId(stage_of[i])});
  edges.insert(plan.imposed_edges.begin(), plan.imposed_edges.end());
  return {edges.begin(), edges.end()};
}

static std::vector<std::vector<int>> inputs_of(const CostGraph& costs) {
  std::vector<std::vector<int>> inputs;
  for (const LayerCost& layer : costs.layers) inputs.push_back(layer.inputs);
  return inputs;
}

static bool takes_groups(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const PlanStage& s) { return s.grouping != 1; });
}

StageGraph stage_graph(const Plan& plan, const CostGraph& costs) {
  StageGraph graph = stage_graph(static_cast<int>(plan.stages.size()),
                                 stage_edges(plan, inputs_of(costs)), "plan");
  if (takes_groups(plan))
    for (const PlanStage& stage : plan.stages) graph.grouping.push_back(stage.grouping);
  return graph;
}

RankMap ranks_of(const Plan& plan) {
  RankMap map;
  std::map<DeviceId, Rank> rank_of;
  map.placement.replica_of = plan.replica_of;
  for (const DeviceId device : plan.rank_order)
    if (rank_of.try_emplace(device, Rank(map.devices.size())).second) map.devices.push_back(device);
  for (const PlanStage& stage : plan.stages) {
    auto& ranks = map.placement.stages.emplace_back();
    for (const DeviceId device : stage.devices) {
      const auto [found, fresh] = rank_of.try_emplace(device, Rank(map.devices.size()));
      if (fresh && !plan.rank_order.empty())
        throw InputError("plan", "device " + std::to_string(device.value) + " has no rank");
      if (fresh) map.devices.push_back(device);
      ranks.push_back(found->second);
    }
    if (ranks.empty()) throw InputError("plan", "a stage has no device");
  }
  return map;
}

// Every stage from the costs of the micro-batches that its ops take at once.
static std::vector<StageCost> grouped_stage_costs(Plan plan, const CostGraph& costs,
                                                  const Cluster& cluster) {
  std::vector<int> groupings;
  for (PlanStage& stage : plan.stages) groupings.push_back(std::exchange(stage.grouping, 1));
  std::vector<StageCost> result(plan.stages.size());
  for (const int grouping : std::set(groupings.begin(), groupings.end())) {
    const auto all = stage_costs(plan, grouped_costs(costs, grouping), cluster);
    for (std::size_t s = 0; s < all.size(); ++s)
      if (groupings[s] == grouping) result[s] = all[s];
  }
  return result;
}

std::vector<StageCost> stage_costs(const Plan& plan, const CostGraph& costs,
                                   const Cluster& cluster) {
  if (takes_groups(plan)) return grouped_stage_costs(plan, costs, cluster);
  std::vector<StageCost> result;
  for (const PlanStage& stage : plan.stages) {
    double slowest = std::numeric_limits<double>::infinity();
    for (const DeviceId device : stage.devices) {
      if (device.value < 0 || device.index() >= cluster.devices.size())
        throw InputError(
            "plan", "device " + std::to_string(device.value) + " does not exist",
            "cluster '" + cluster.name + "' has " + std::to_string(cluster.devices.size()));
      slowest = std::min(slowest, cluster.devices[device.index()].speed);
    }
    StageCost cost;
    for (const int l : stage.layers) {
      const LayerCost& layer = costs.layers[static_cast<std::size_t>(l)];
      cost.forward += layer.forward / slowest;
      cost.input_gradient += layer.input_gradient / slowest;
      cost.weight_gradient += layer.weight_gradient / slowest;
      cost.update += layer.update / slowest;
      cost.parameters += layer.parameters;
    }
    result.push_back(cost);
  }
  return result;
}

Bytes edge_bytes(const Plan& plan, const CostGraph& costs, StageId from, StageId to) {
  std::set<int> crossing;
  const auto& sources = plan.stages[from.index()].layers;
  for (const int l : plan.stages[to.index()].layers)
    for (const int p : costs.layers[static_cast<std::size_t>(l)].inputs)
      if (std::ranges::binary_search(sources, p)) crossing.insert(p);
  Bytes bytes;
  for (const int p : crossing) bytes += costs.layers[static_cast<std::size_t>(p)].output;
  return bytes;
}

SearchReport search_report(const Plan& plan) {
  if (plan.search) return *plan.search;
  return {plan.objective, "slowest stage", plan.states, plan.complete};
}

nlohmann::json plan_json(const Plan& plan, const CostGraph& costs, const std::string& system,
                         std::optional<Seconds> simulated) {
  const SearchReport search = search_report(plan);
  nlohmann::json json = {{"system", system},
                         {"objective", search.objective},
                         {"objective_name", search.objective_name},
                         {"micro_batch", plan.micro_batch},
                         {"states", search.states},
                         {"search_seconds", plan.search_seconds},
                         {"complete", search.complete},
                         {"stages", nlohmann::json::array()},
                         {"edges", nlohmann::json::array()}};
  json["simulated_seconds"] =
      simulated ? nlohmann::json(simulated->value) : nlohmann::json(nullptr);
  for (const PlanStage& stage : plan.stages) {
    nlohmann::json devices = nlohmann::json::array();
    for (const DeviceId d : stage.devices) devices.push_back(d.value);
    json["stages"].push_back({{"layers", stage.layers},
                              {"devices", devices},
                              {"data", stage.devices.size()},
                              {"tensor", 1}});
    if (stage.grouping != 1)
      json["stages"].back()["micro_batch"] = stage.grouping * plan.micro_batch;
  }
  for (const auto& [from, to] : stage_edges(plan, inputs_of(costs)))
    json["edges"].push_back({from.value, to.value});
  return json;
}

}  // namespace sluice
