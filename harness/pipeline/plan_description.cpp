#include "harness/pipeline/plan_description.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"
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

Json to_json(const PlanDescription::Stage& s) {
  Json json = {{"devices", s.devices}, {"data", s.data}, {"tensor", s.tensor}};
  if (s.layers) json["layers"] = *s.layers;
  if (s.recompute) json["recompute"] = true;
  if (!s.variants.empty()) json["variants"] = s.variants;
  if (s.weight_gradient_device) json["weight_gradient_device"] = *s.weight_gradient_device;
  if (s.passed_channels > 0) json["passed_channels"] = s.passed_channels;
  if (s.micro_batch) json["micro_batch"] = *s.micro_batch;
  return json;
}

constexpr int kMost = std::numeric_limits<int>::max();
constexpr std::int64_t kMostLong = std::numeric_limits<std::int64_t>::max();

PlanDescription::Stage read_stage(JsonReader reader) {
  PlanDescription::Stage s;
  if (reader.has("layers")) s.layers = reader.integers<int>("layers", 0, kMost);
  s.devices = reader.integers<int>("devices", 0, kMost);
  s.data = reader.integer("data", 0, kMost);
  s.tensor = reader.integer("tensor", 0, kMost);
  s.recompute = reader.boolean("recompute", false);
  s.variants = reader.texts("variants");
  if (reader.has("weight_gradient_device"))
    s.weight_gradient_device = reader.integer("weight_gradient_device", 0, kMost);
  s.passed_channels = reader.integer_or("passed_channels", 0, 0, kMost);
  if (reader.has("micro_batch")) s.micro_batch = reader.integer<std::int64_t>("micro_batch", 0, kMostLong);
  reader.no_other_keys();
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

Json to_json(const PlanDescription& d) {
  Json json = {{"system", d.system},
               {"objective", d.objective},
               {"objective_name", d.objective_name},
               {"micro_batch", d.micro_batch},
               {"states", d.states},
               {"search_seconds", d.search_seconds},
               {"complete", d.complete},
               {"stages", Json::array()},
               {"edges", Json::array()},
               {"simulated_seconds", d.simulated_seconds}};
  for (const PlanDescription::Stage& stage : d.stages) json["stages"].push_back(to_json(stage));
  for (const auto& [from, to] : d.edges) json["edges"].push_back(Json::array({from, to}));
  if (!d.sequence_cut.empty()) json["sequence_cut"] = d.sequence_cut;
  if (d.module_names) json["module_fqns_per_model_part"] = *d.module_names;
  return json;
}

PlanDescription read_plan_description(JsonReader& reader) {
  PlanDescription d;
  d.system = reader.text("system");
  d.objective = reader.any_number_or_null("objective");
  d.objective_name = reader.text("objective_name");
  d.micro_batch = reader.integer<std::int64_t>("micro_batch", 0, kMostLong);
  d.states = reader.integer<std::int64_t>("states", 0, kMostLong);
  d.search_seconds = reader.any_number("search_seconds");
  d.complete = reader.boolean("complete");
  for (const JsonReader& stage : reader.objects("stages")) d.stages.push_back(read_stage(stage));
  JsonReader edges = reader.list("edges");
  for (const std::string& index : edges.keys()) {
    const std::vector<int> ends = edges.integers<int>(index, 0, kMost);
    if (ends.size() != 2) edges.fail(index, "is no pair of stages");
    d.edges.emplace_back(ends[0], ends[1]);
  }
  d.simulated_seconds = reader.any_number_or_null("simulated_seconds");
  if (reader.has("sequence_cut")) d.sequence_cut = reader.integers<std::int64_t>("sequence_cut", 0, kMostLong);
  if (reader.has("module_fqns_per_model_part")) {
    JsonReader parts = reader.list("module_fqns_per_model_part");
    d.module_names.emplace();
    for (const std::string& index : parts.keys()) d.module_names->push_back(parts.texts(index));
  }
  reader.no_other_keys();
  return d;
}

}  // namespace sluice
