// System: one published system as a value: a name, a citation, options, and pure functions for its
// decisions (plan, order, weights) plus what its paper promises (theory). No base class, no state.
// A file NAME.cpp in baselines/ or systems/ defines `extern const System NAME`; CMake makes the
// table.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/base/options.h"
#include "harness/model/cluster.h"
#include "harness/model/cost_graph.h"
#include "harness/pipeline/plan.h"
#include "harness/pipeline/schedule.h"
#include "harness/pipeline/sharding.h"
#include "harness/pipeline/weight_rule.h"

namespace sluice {

// What a planner is given. `simulate` is the common simulator's opinion of a plan, for re-ranking:
// the seconds of an update, infinite if a device's memory does not hold it.
struct Problem {
  const CostGraph& costs;
  const Cluster& cluster;
  int devices;         // how many of the cluster's devices to use
  std::int64_t batch;  // global batch, samples
  int microbatches;    // per update
  std::function<Seconds(const Plan&)> simulate;
  // The costs with micro-batches of another size, for planners that choose it. Empty: only as
  // `costs`, and larger ones in proportion.
  std::function<std::shared_ptr<const CostGraph>(std::int64_t micro_batch)> costs_at = {};
  // What a set of layers (ascending) keeps on its device, always and between F and B of every
  // micro-batch, whatever its size and for every sample. Empty: not known, so planners go by
  // LayerCost: twice the parameters, and the outputs.
  struct Footprint {
    Bytes always, per_micro_batch, per_sample;
  };
  std::function<Footprint(std::span<const int> layers)> footprint = {};
};

// What an order is given. Uniform chains for `sluice schedule`; a plan's stages for real runs.
struct ScheduleProblem {
  StageGraph graph;
  Placement placement;
  int ranks;
  int microbatches;  // synchronous: of one update; asynchronous: of one drained run
  // For orders that depend on times: per stage; empty: F = I = W on all. And of a message.
  std::vector<StageCost> costs = {};
  Seconds latency = Seconds(0);
  int microbatches_per_update = 1;          // asynchronous systems that accumulate
  int epoch = 0;                            // of the training, where a system changes with it
  std::vector<std::vector<Op>> order = {};  // Plan::order
  std::vector<bool> recompute = {};         // per stage, PlanStage::recompute; empty: none
  int chunks() const { return static_cast<int>(graph.size()) / ranks; }  // stages of every rank
};

// The paper's figures, in micro-batches and versions per rank; printed beside what is observed.
struct Theory {
  std::optional<double> bubble_ratio;  // at uniform costs, forward : backward = 1 : 2, no latency
  std::vector<int> in_flight;          // peak activations per rank, micro-batches
  std::vector<int> weight_versions;    // per rank, the newest included
  std::vector<int> staleness;          // updates between a batch's forward and its own update, per rank, steady state
  std::string note = {};               // a warning for whoever asked for this problem
};

struct System {
  std::string name;  // the file's name
  std::vector<std::string> aliases;
  std::string title;  // as people write it: "1F1B (PipeDream-Flush)"
  std::string citation;
  bool synchronous = true;
  bool one_process = false;    // takes one device whatever it is given: the reference row
  bool data_parallel = false;  // the whole model on every rank, each with its own micro-batches
  bool accumulates = false;    // asynchronous, but several micro-batches make one update
  std::vector<OptionSpec> options;
  Plan (*plan)(const Problem&, const Options&);
  Schedule (*schedule)(const ScheduleProblem&, const Options&);
  WeightRule (*weights)(const ScheduleProblem&, const Options&);
  Theory (*theory)(const ScheduleProblem&, const Options&);
  // Stages on every rank (virtual stages) of its plans; none: 1.
  int (*chunks)(const Options&) = nullptr;
  // Where weights are gathered and gradients scattered; none: every rank holds its stages whole.
  Sharding (*sharding)(const ScheduleProblem&, const Options&) = nullptr;
};

inline int stages_per_rank(const System& system, const Options& options) {
  return system.chunks ? system.chunks(options) : 1;
}

std::span<const System* const> all_systems();  // generated; in order of file names
const System& find_system(const std::string& name,
                          const std::string& where);  // throws InputError with a suggestion

}  // namespace sluice
