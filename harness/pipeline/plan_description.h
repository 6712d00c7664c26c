// A plan in the form of `sluice plan --json` and of records.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/quantities.h"

namespace sluice {

class Json;
struct CostGraph;
struct Plan;

struct PlanDescription {
  struct Stage {
    std::optional<std::vector<int>> layers = {};  // indices into the model's layers; none: a compact record
    std::vector<int> devices = {};
    int data = 1;    // replicas
    int tensor = 1;  // tensor-parallel degree of a replica
    bool recompute = false;
    std::vector<std::string> variants = {};  // per layer, "" for the layer as measured; empty: no layer has variants
    std::optional<int> weight_gradient_device = {};
    int passed_channels = 0;  // input channels whose gradient the rank of the stage before computes
    std::optional<std::int64_t> micro_batch = {};  // samples of one op, if it takes several micro-batches at once
  };
  std::string system = {};
  std::optional<double> objective = {};  // what the planner minimised; none: not a finite number
  std::string objective_name = {};
  std::int64_t micro_batch = 1;  // samples
  std::int64_t states = 0;       // visited by the search
  double search_seconds = 0;
  bool complete = true;            // false: a limit ended the search
  std::vector<Stage> stages = {};  // in topological order
  std::vector<std::pair<int, int>> edges = {};
  std::optional<double> simulated_seconds = {};  // of an update
  std::vector<std::int64_t> sequence_cut = {};   // where the chunks of sequences begin, and the end; empty: not cut
  // The parts of a PyTorch model in every stage, in order: torchtitan's module_fqns_per_model_part. None: see
  // ModelParts.
  std::optional<std::vector<std::vector<std::string>>> module_names = {};
};

// Per stage, the parts of a PyTorch model (LayerCost::part), each once. None if a part would be in two stages, a stage
// would have none, or the costs name no parts: left_out gives the reason.
struct ModelParts {
  std::optional<std::vector<std::vector<std::string>>> names = {};
  std::string left_out = {};
};
ModelParts model_parts(const Plan& plan, const CostGraph& costs);

PlanDescription describe_plan(const Plan& plan, const CostGraph& costs, const std::string& system,
                              std::optional<Seconds> simulated);
Json to_json(const PlanDescription& plan);

// Their form in JSON: see harness/base/json_fields.h.
template <class V>
void fields(V& v, PlanDescription::Stage& s) {
  v.if_any("layers", s.layers);
  v("devices", s.devices);
  v("data", s.data);
  v("tensor", s.tensor);
  v.if_any("recompute", s.recompute);
  v.if_any("variants", s.variants);
  v.if_any("weight_gradient_device", s.weight_gradient_device);
  v.if_any("passed_channels", s.passed_channels);
  v.if_any("micro_batch", s.micro_batch);
}
template <class V>
void fields(V& v, PlanDescription& d) {
  v("system", d.system);
  v("objective", d.objective);
  v("objective_name", d.objective_name);
  v("micro_batch", d.micro_batch);
  v("states", d.states);
  v("search_seconds", d.search_seconds);
  v("complete", d.complete);
  v("stages", d.stages);
  v("edges", d.edges);
  v("simulated_seconds", d.simulated_seconds);
  v.if_any("sequence_cut", d.sequence_cut);
  v.if_any("module_fqns_per_model_part", d.module_names);
}

}  // namespace sluice
