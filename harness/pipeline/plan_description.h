// A plan as it is written: by `sluice plan --json` and in records.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/quantities.h"

namespace sluice {

class Json;
class JsonReader;
struct CostGraph;
struct Plan;

struct PlanDescription {
  struct Stage {
    std::optional<std::vector<int>> layers = {};  // indices into the model's layers; none: left out of a compact record
    std::vector<int> devices = {};
    int data = 1;    // replicas
    int tensor = 1;  // devices that share every layer of a replica
    bool recompute = false;
    std::vector<std::string> variants = {};  // per layer, "" for the layer as measured; empty: none has variants
    std::optional<int> weight_gradient_device = {};
    int passed_channels = 0;  // input channels whose gradient the rank of the stage before computes
    std::optional<std::int64_t> micro_batch = {};  // samples of one op, where it takes several micro-batches at once
  };
  std::string system = {};
  std::optional<double> objective = {};  // what the planner minimised; none: not a finite number
  std::string objective_name = {};
  std::int64_t micro_batch = 1;  // samples
  std::int64_t states = 0;       // that the search visited
  double search_seconds = 0;
  bool complete = true;            // false: a cap ended the search
  std::vector<Stage> stages = {};  // in topological order
  std::vector<std::pair<int, int>> edges = {};
  std::optional<double> simulated_seconds = {};  // of an update
  std::vector<std::int64_t> sequence_cut = {};   // where the chunks of sequences begin, and the end; empty: whole
  // The names of every stage's layers, in order, each once: what torchtitan calls module_fqns_per_model_part. A layer
  // that is a later part of a module, "blocks.0#2", has the module's name. None: of an earlier version's record.
  std::optional<std::vector<std::vector<std::string>>> module_names = {};
};

PlanDescription describe_plan(const Plan& plan, const CostGraph& costs, const std::string& system,
                              std::optional<Seconds> simulated);
Json to_json(const PlanDescription& plan);
// Throws InputError for what is missing, of the wrong type or unknown.
PlanDescription read_plan_description(JsonReader& reader);

}  // namespace sluice
