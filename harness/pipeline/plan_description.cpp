#include "harness/pipeline/plan_description.h"

#include <algorithm>
#include <cmath>

#include "harness/base/json_fields.h"
#include "harness/pipeline/plan.h"

namespace sluice {

namespace {

std::vector<std::vector<std::string>> module_names(const Plan& plan, const CostGraph& costs) {
  std::vector<std::vector<std::string>> parts;
  for (const PlanStage& stage : plan.stages) {
    std::vector<std::string>& part = parts.emplace_back();
    for (const int layer : stage.layers) {
      const std::string& name = costs.layers[layer].name;
      const std::string module = name.substr(0, name.rfind('#'));
      if (std::ranges::count(part, module) == 0) part.push_back(module);
    }
  }
  return parts;
}

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
  if (stage.micros_per_op != 1) s.micro_batch = stage.micros_per_op * plan.micro_batch;
  return s;
}

}  // namespace

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
  d.module_names = module_names(plan, costs);
  return d;
}

Json to_json(const PlanDescription& plan) { return write_fields(plan); }

}  // namespace sluice
