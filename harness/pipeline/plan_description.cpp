#include "harness/pipeline/plan_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/base/json_fields.h"
#include "harness/pipeline/plan.h"

namespace sluice {

namespace {

PlanDescription::Stage describe_stage(const Plan& plan, const PlanStage& stage, const CostGraph& costs) {
  PlanDescription::Stage s;
  s.layers = stage.layers;
  for (const DeviceId device : stage.devices) s.devices.push_back(static_cast<int>(device.value));
  s.data = static_cast<int>(stage.devices.size()) / stage.tensor;
  s.tensor = stage.tensor;
  s.recompute = stage.recompute;
  if (!stage.variants.empty())
    for (std::size_t i = 0; i < stage.layers.size(); ++i) {
      const LayerVariant* variant = variant_of(stage, i, costs);
      s.variants.push_back(variant ? variant->id : "");
    }
  if (stage.weight_gradient_device) s.weight_gradient_device = static_cast<int>(stage.weight_gradient_device->value);
  s.passed_channels = stage.passed_channels;
  if (stage.microbatches_per_op != 1) s.micro_batch = stage.microbatches_per_op * plan.micro_batch;
  return s;
}

}  // namespace

ModelParts model_parts(const Plan& plan, const CostGraph& costs) {
  ModelParts result;
  std::vector<std::vector<std::string>> stages;
  std::map<std::string, std::size_t> stage_of;
  for (const PlanStage& stage : plan.stages) {
    std::vector<std::string>& own = stages.emplace_back();
    for (const int layer : stage.layers) {
      const std::string& part = costs.layers[layer].part;
      if (part.empty()) continue;
      const auto [found, added] = stage_of.try_emplace(part, stages.size() - 1);
      if (added) own.push_back(part);
      if (found->second != stages.size() - 1) {
        result.left_out = fmt::format(
            "'{}' is in stages {} and {}; torchtitan gives a stage whole children of the model, of its ModuleLists "
            "and of its ModuleDicts",
            part, found->second, stages.size() - 1);
        return result;
      }
    }
  }
  const auto empty = std::ranges::find_if(stages, [](const auto& stage) { return stage.empty(); });
  if (stage_of.empty()) {
    result.left_out = "the costs name no parts of a PyTorch model";
  } else if (empty != stages.end()) {
    result.left_out = fmt::format("stage {} holds no module", empty - stages.begin());
  } else {
    result.names = std::move(stages);
  }
  return result;
}

PlanDescription describe_plan(const Plan& plan, const CostGraph& costs, const std::string& system,
                              std::optional<Seconds> simulated) {
  const SearchReport& search = plan.search;
  PlanDescription d;
  d.system = system;
  if (std::isfinite(search.objective)) d.objective = search.objective;
  d.objective_name = search.objective_name;
  d.micro_batch = plan.micro_batch;
  d.states = search.states;
  d.search_seconds = search.seconds;
  d.complete = search.complete;
  for (const PlanStage& stage : plan.stages) d.stages.push_back(describe_stage(plan, stage, costs));
  for (const auto& [from, to] : stage_edges(plan, inputs_of(costs)))
    d.edges.emplace_back(static_cast<int>(from.value), static_cast<int>(to.value));
  if (simulated) d.simulated_seconds = simulated->value;
  d.sequence_cut = plan.sequence_cut;
  d.module_names = model_parts(plan, costs).names;
  return d;
}

Json to_json(const PlanDescription& plan) { return write_fields(plan); }

}  // namespace sluice
