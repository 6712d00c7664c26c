// System: one published system as a struct: a name, a citation, its sources, options, and pure functions for its
// decisions (plan, order, weights) and for what its paper promises (theory). No base class, no state. Defaults of the
// fields are what most systems do. A file NAME.cpp in baselines/ or systems/, or NAME/NAME.cpp there, defines `extern
// const System NAME`; CMake makes the table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/base/options.h"
#include "harness/model/cluster.h"
#include "harness/model/cost_graph.h"
#include "harness/pipeline/microbatch_sizes.h"
#include "harness/pipeline/offload.h"
#include "harness/pipeline/plan.h"
#include "harness/pipeline/provenance.h"
#include "harness/pipeline/schedule.h"
#include "harness/pipeline/sharding.h"
#include "harness/pipeline/theory.h"
#include "harness/pipeline/weight_rule.h"

namespace sluice {

// A planner's result: a plan, and the order of its ops if the planner also chooses it, by the times that it expects.
struct PlannedPipeline {
  PlannedPipeline() = default;
  PlannedPipeline(Plan p, StageOrders o = {}) : plan(std::move(p)), order(std::move(o)) {}

  Plan plan;
  StageOrders order;  // empty: the system's schedule follows from the stages alone
};

// The input of a planner. `simulate` is the common simulator, for ranking plans: the seconds of an update, infinite if
// the memory of a device is too small.
struct Problem {
  const CostGraph& costs;
  const Cluster& cluster;
  int devices;         // how many of the cluster's devices to use
  std::int64_t batch;  // global batch, samples
  int microbatches;    // per update
  std::function<Seconds(const PlannedPipeline&)> simulate;
  // The costs for micro-batches of another size, for planners that choose it. Empty: only `costs` are known, and larger
  // sizes are in proportion.
  std::function<std::shared_ptr<const CostGraph>(std::int64_t micro_batch)> costs_at = {};
  // Memory of a set of layers (ascending) on its device: always; per micro-batch between F and B, for any size; and per
  // sample. Empty: not known, so planners use LayerCost: twice the parameters, and the outputs.
  struct Footprint {
    Bytes always, per_micro_batch, per_sample;
  };
  std::function<Footprint(std::span<const int> layers)> footprint = {};
  // Only forwards run: `costs` has only their times, replicas of a stage exchange no gradients, and the footprint is
  // that of the weights and the live tensors per sample.
  bool inference = false;
  // Whether balanced cuts count the messages over them as well as the layers (chain_partition.h).
  bool cuts_count_messages = false;
  std::vector<int> cut_before = {};  // balanced cuts are only before these layers, ascending; empty: before any
  // Given stages: the first layers of the second and the following stages, ascending. Empty: the system cuts the model.
  std::vector<int> first_layers = {};
  // Per layer, for a system with vocabulary slices: the device that holds it as its slice, -1 for the layers of the
  // pipeline. Empty: no slices.
  std::vector<int> word_slices = {};
  // For one pipeline, if micro-batches differ: `costs` are those of the largest.
  MicrobatchSizes sizes = {};
  // Limits of a search: max replicas of a stage, and seconds of its thread, after which it ends with its best result.
  // For System::candidates.
  int max_replicas = std::numeric_limits<int>::max();
  double search_seconds = std::numeric_limits<double>::infinity();
};

// The input of an order. Uniform chains for `sluice schedule`; a plan's stages for real runs.
struct ScheduleProblem {
  StageGraph graph;
  Placement placement;
  int ranks;
  int microbatches;  // synchronous: per update; asynchronous: per drained run
  // For orders that depend on times: per stage (empty: F = I = W on all), and of a message.
  std::vector<StageCost> costs = {};
  Seconds latency = Seconds(0);
  int microbatches_per_update = 1;   // asynchronous systems that accumulate
  int epoch = 0;                     // of the training, for systems that change with it
  StageOrders order = {};            // PlannedPipeline::order
  std::vector<bool> recompute = {};  // per stage, PlanStage::recompute; empty: none
  // For searched orders (System::searches_order). messages: per stage, seconds to the next stage; empty: `latency`.
  // weight_stash_share: share of a micro-batch's stash between F and I that is still kept between I and W; empty: all.
  std::vector<Seconds> messages = {};
  std::vector<double> weight_stash_share = {};
  // For systems that offload. Per stage: seconds to copy a stash one way between device and host; empty: not known.
  std::vector<Seconds> host_copies = {};
  int sequence_chunks = 1;     // of every micro-batch (Plan::sequence); the schedule counts each
  MicrobatchSizes sizes = {};  // of the micro-batches of an update, if they differ: `costs` are those of the largest

  int stages() const { return graph.stages(); }
  int chunks() const { return stages() / ranks; }  // stages on every rank
  // The rank of a stage that runs on one rank.
  Rank rank_of(int stage) const { return placement.stages[stage].front(); }
};

// Seconds of a message between a stage and the next one.
inline double message_seconds(const ScheduleProblem& problem, int stage) {
  const auto s = static_cast<std::size_t>(stage);
  return s < problem.messages.size() ? problem.messages[s].value : problem.latency.value;
}

// Placement of a chain with several stages per device. loop: stage c p + r is on device r. wave: back and forth, so for
// odd c stage (c + 1) p - 1 - r is on device r, and devices at the turning points have two consecutive stages.
enum class ChunkPlacement { loop, wave };

// Defaults of a System, for those that update once, after the last backward.
inline WeightRule newest_weights(const ScheduleProblem&, const Options&) { return {}; }
inline Theory theory_of_a_flush(const ScheduleProblem& problem, const Options&) { return flush_theory(problem.ranks); }

// Observations of a run's ranks so far, for a system that changes its plan when they change.
struct ObservedWindow {
  std::size_t plan = 0;           // index into Observations::plans
  std::int64_t updates = 0;       // in the window
  std::vector<double> compute;    // per rank: seconds of its forwards and backwards in the window
  std::vector<double> transfers;  // per edge of a chain: mean seconds of a message in transit; empty: not known
};
struct Observations {
  std::span<const Plan> plans;              // in the order in which they ran; the last one runs now
  std::span<const ObservedWindow> windows;  // of the whole run, oldest first
  std::int64_t updates_left = 0;
};
struct Adaptation {
  Plan plan;                       // with the same number of stages, on the same devices
  std::int64_t after_updates = 0;  // number of updates that still begin under the old plan
  // true: the whole job restarts from a checkpoint, after a pause; false: layers move between the ranks.
  bool restart = false;
  Seconds pause{};
};

struct CoRunFile;  // co_runs.h
struct CoRunProblem;
// Samples of an update, of different lengths. A micro-batch is padded to its longest sample.
struct SamplesToGroup {
  std::vector<std::int64_t> lengths;
  int ranks = 1;
  std::int64_t overhead = 0;                                      // per micro-batch, in units of length
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();  // per micro-batch: samples times the longest
};

struct PipelineSize {
  int ranks;
  int microbatches;  // of one update
};

struct System {
  std::string name;  // the file's name
  std::vector<std::string> aliases = {};
  std::string title;  // as people write it: "1F1B (PipeDream-Flush)"
  std::string citation;
  Provenance written_from;
  bool synchronous = true;
  bool one_process = false;  // always takes one device: the reference row
  // Why all micro-batches must have one size, for planners whose objective assumes this; empty: sizes may differ.
  std::string one_size_only = {};
  bool data_parallel = false;   // the whole model on every rank, each with its own micro-batches
  bool divides_words = false;   // head and embedding are cut by words over all ranks (model/word_slices.h)
  bool accumulates = false;     // asynchronous, with one update per several micro-batches
  bool inference_only = false;  // plans pipelines of forwards and has no order of backwards
  bool searches_order = false;  // its schedule reads ScheduleProblem::messages and weight_stash_share
  std::vector<OptionSpec> options = {};
  // Throws InputError for numbers of ranks and micro-batches (per update) for which it has no plan; `schedule` throws
  // if there is a plan but no order. Called once, before the plan is made. None: it accepts all.
  void (*require)(int ranks, int microbatches, const Options&) = nullptr;
  // Number of stages per rank (virtual stages) of its plans, and their placement; none: 1.
  int (*chunks)(const Options&) = nullptr;
  ChunkPlacement chunk_placement = ChunkPlacement::loop;
  // Number of chunks of the sequences of every micro-batch; none: not cut. For systems with a flush.
  SequenceChunks (*sequence)(const Options&) = nullptr;
  // Whether none of its plans uses balanced cuts, so that Problem::cuts_count_messages has no effect; none: some plan
  // may.
  bool (*own_cuts)(const Options&) = nullptr;
  // Number of the first micro-batches of an update that its order takes as two halves each, fewer than all; none: 0. A
  // case without sizes then gets those of the halves.
  int (*halved)(const Options&) = nullptr;
  // Forms micro-batches of samples of different lengths: the size of each in units of length, including padding and
  // overhead; none: not supported.
  std::vector<std::int64_t> (*group_samples)(const SamplesToGroup&) = nullptr;
  // Which layers on which devices; a planner that decides no order returns a Plan. None: a chain of equally slow
  // stages, `chunks` per device.
  std::function<PlannedPipeline(const Problem&, const Options&)> plan = nullptr;
  // A planner instead: the plans that its search keeps (at least one), such as the best one for every number of stages,
  // each with its objective (Plan::search). make_plan.h chooses one, and sets the limits of the search.
  std::function<std::vector<PlannedPipeline>(const Problem&, const Options&)> candidates = nullptr;
  // The order of forwards and backwards on every rank.
  Schedule (*schedule)(const ScheduleProblem&, const Options&);
  // The same order as a rule, for a chain whose stages go round the ranks: it is timed without storing its ops
  // (sim/chain_clock.h). Empty for options with another order. None: `schedule` gives the order.
  OpRule (*op_rule)(const ScheduleProblem&, const Options&) = nullptr;
  WeightRule (*weights)(const ScheduleProblem&, const Options&) = newest_weights;
  Theory (*theory)(const ScheduleProblem&, const Options&) = theory_of_a_flush;
  // Whether `plan` may put a stage on several devices that reduce its gradients; none: it never does. Not called for
  // .data_parallel.
  bool (*replicates)(const Options&) = nullptr;
  // Another plan for the rest of the run; none: no change. Called between updates, after every `window` of them. For
  // asynchronous chains with one stage per rank.
  std::optional<Adaptation> (*adapt)(const Observations&, const Problem&, const Options&) = nullptr;
  int (*window)(const Options&) = nullptr;  // if `adapt` is given: updates
  // Changes that its options prescribe, by the number of updates before each (after_updates is not used); then `adapt`
  // is never called. Throws InputError for plans that are impossible for the problem.
  std::map<std::int64_t, Adaptation> (*prescribed)(const Problem&, const Options&) = nullptr;
  // When weights are gathered and gradients scattered; none: every rank holds its stages whole.
  Sharding (*sharding)(const ScheduleProblem&, const Options&) = nullptr;
  // Which stashes its schedule moves to the host's memory; none: all stay on the device.
  Offload (*offload)(const ScheduleProblem&, const Schedule&, const Options&) = nullptr;
  // Whether its order has overlapped pairs (schedule.h), whose cost (Cluster::pair_share) then has an effect; none: no.
  bool (*pairs)(const Options&) = nullptr;
  // For an order that exists for one size only: that size, the default of a case; none: any.
  PipelineSize (*made_for)(const Options&) = nullptr;
  // Makes the file of `sluice profile --co-run`, which its own options take; none: it learns from no co-runs.
  CoRunFile (*co_run_file)(const CoRunProblem&) = nullptr;

  bool is_called(const std::string& text) const { return text == name || std::ranges::count(aliases, text) > 0; }
};

inline int stages_per_rank(const System& system, const Options& options) {
  return system.chunks ? system.chunks(options) : 1;
}

// Returns `systems`. Throws InputError if two of them have the same name or alias.
std::vector<const System*> with_names_of_their_own(std::vector<const System*> systems);

// The table of this build, which CMake makes from file names, in this order: baselines/, systems/, then the folders of
// SLUICE_EXTRA_SYSTEMS. Throws as with_names_of_their_own().
std::span<const System* const> all_systems();
std::span<const System* const> shipped_systems();  // those of baselines/ and systems/
// "file:order.csv" is the system order_file (baselines/order_file) with this file. It is not in the tables.
constexpr std::string_view kOrderFromFile = "file:";
// The systems of the pattern "*" (all), "*synchronous" (all with a flush) or "*asynchronous" (all without); empty for
// other names.
std::vector<const System*> systems_of_pattern(const std::string& name);
// By name, alias or as "file:..."; null: not in this build.
const System* system_called(const std::string& name);
const System& find_system(const std::string& name, const std::string& where);  // throws InputError with a suggestion

// A schedule without ops.
Schedule empty_schedule(const ScheduleProblem& problem);

// Requirements that several systems share, for System::require; `system` is the name in the error.
void require_a_micro_batch_for_every_rank(const std::string& system, int ranks, int microbatches);

}  // namespace sluice
