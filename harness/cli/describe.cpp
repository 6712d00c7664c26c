#include "harness/cli/describe.h"

#include <fmt/format.h>

#include <map>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/quantities.h"
#include "harness/case/profile_workload.h"
#include "harness/case/sweep.h"
#include "harness/model/cluster.h"
#include "harness/model/training_work.h"
#include "workloads/models/registry.h"
#include "workloads/models/workload_file.h"
#include "workloads/profiles/profile.h"

namespace sluice {

namespace {

// "sgd, learning rate 0.01, momentum 0.9".
std::string text_of(const WorkloadOptimizer& optimizer) {
  std::string text = fmt::format("{}, learning rate {:g}", optimizer.name, optimizer.lr);
  if (optimizer.momentum > 0) text += fmt::format(", momentum {:g}", optimizer.momentum);
  if (optimizer.weight_decay > 0) text += fmt::format(", weight decay {:g}", optimizer.weight_decay);
  return text;
}

// "3 Linear, 2 Activation", most frequent first.
std::string counted(const std::map<std::string, int>& counts) {
  std::multimap<int, std::string, std::greater<>> by_count;
  for (const auto& [name, count] : counts) by_count.emplace(count, name);
  std::string text;
  for (const auto& [count, name] : by_count) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
  return text;
}

Json describe_costs(const std::string& path) {
  const ProfileWorkload& profile = *profile_workload(path, "");
  const CostGraph& costs = profile.costs;
  Seconds forward, input_gradient, weight_gradient;
  Bytes parameters, kept;
  const LayerCost* largest = &costs.layers.front();
  for (const LayerCost& l : costs.layers) {
    forward += l.forward, input_gradient += l.input_gradient, weight_gradient += l.weight_gradient;
    parameters += l.parameters, kept += l.kept();
    if (largest->output < l.output) largest = &l;
  }
  std::string warnings;
  for (const std::string& warning : profile.warnings) warnings += (warnings.empty() ? "" : " ") + warning;
  return {{"kind", "costs of layers"},
          {"name", path},
          {"model", costs.model},
          {"source", costs.source},
          {"device", costs.device},
          {"layers", costs.layers.size()},
          {"micro_batch", costs.micro_batch},
          {"forward", to_text(forward)},
          {"input_gradient", to_text(input_gradient)},
          {"weight_gradient", to_text(weight_gradient)},
          {"weights", to_text(parameters)},
          {"kept", to_text(kept) + " of a micro-batch, between its forward and its backward"},
          {"largest_output", to_text(largest->output) + ", " + largest->name},
          {"notes", warnings}};
}

Json describe_sweep(const std::string& path) {
  const Sweep sweep = load_sweep(path);
  std::map<std::string, int> systems, workloads;
  for (const RunCase& c : sweep.cases) ++systems[c.system], ++workloads[c.workload];
  return {{"kind", "sweep"},
          {"name", sweep.name},
          {"title", sweep.title},
          {"cases", sweep.cases.size()},
          {"systems", counted(systems)},
          {"workloads", counted(workloads)}};
}

Json describe_cluster(const std::string& path) {
  const Cluster cluster = load_cluster(path, "");
  std::map<std::string, int> devices;
  for (const Device& device : cluster.devices) ++devices[device.name];
  return {{"kind", "cluster"},
          {"name", path},
          {"title", cluster.name},
          {"devices", counted(devices)},
          {"source", cluster.source}};
}

}  // namespace

Json summary_of(const Workload& w) {
  return {{"name", w.name},
          {"title", w.title},
          {"task", w.task},
          {"dataset", w.dataset},
          {"layers", w.model.layers.size()},
          {"parameters", parameter_count(w.model)},
          {"batch", w.batch},
          {"microbatches", w.microbatches},
          {"epochs", w.epochs},
          {"optimizer", text_of(w.optimizer)},
          {"metric", w.metric},
          {"target", w.target},
          {"runs_for_real", w.runs_for_real},
          {"source", w.source}};
}

Json describe_workload(const Workload& w) {
  Json json = summary_of(w);
  std::map<std::string, int> kinds;
  std::vector<int> all;
  for (const LayerSpec& layer : w.model.layers) {
    ++kinds[kind_name(layer.kind)];
    all.push_back(static_cast<int>(all.size()));
  }
  std::string inputs;
  for (const ModelInput& input : w.model.inputs)
    inputs += (inputs.empty() ? "" : ", ") + to_text(input.shape) + (input.is_token_ids ? " token ids" : "");
  const double flop = model_flop_per_sample(w.model).value, forward = model_flop_per_sample(w.model, true).value;
  const StageStash kept = stage_stash(w.model, w.model.shapes(), all, 1);
  json["kinds"] = counted(kinds);
  json["inputs"] = inputs;
  const auto tokens = tokens_per_sample(w.model);
  json["work"] = fmt::format("{:.4g} GFLOP a sample forward, {:.4g} with its gradients{}", forward / 1e9, flop / 1e9,
                             tokens ? fmt::format("; {} tokens", *tokens) : "");
  json["kept"] = to_text(kept.forward) + " a sample between its forward and its backward, in fp32";
  return json;
}

Json describe_file(const std::string& path) {
  if (is_workload_file(path)) return describe_workload(find_workload(path));
  if (path.ends_with(".json")) {
    const Json json = parse_json_file(path);
    if (json.find("grid")) return describe_sweep(path);
    if (json.find("devices")) return describe_cluster(path);
  }
  return describe_costs(path);
}

}  // namespace sluice
