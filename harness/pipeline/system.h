// System: one published system as a value: a name, a citation, its sources, options, and pure functions for its
// decisions (plan, order, weights) plus what its paper promises (theory). No base class, no state. Whatever most
// systems do is the default of its field. A file NAME.cpp in baselines/ or systems/, or NAME/NAME.cpp there, defines
// `extern const System NAME`; CMake makes the table.
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

// What a planner decides: a plan, and the order of its ops where the planner chooses that too, by the times it expects.
struct PlannedPipeline {
  PlannedPipeline() = default;
  PlannedPipeline(Plan p, StageOrders o = {}) : plan(std::move(p)), order(std::move(o)) {}

  Plan plan;
  StageOrders order;  // empty: the system's schedule follows from the stages alone
};

// What a planner is given. `simulate` is the common simulator's opinion of a plan, for re-ranking: the seconds of an
// update, infinite if a device's memory does not hold it.
struct Problem {
  const CostGraph& costs;
  const Cluster& cluster;
  int devices;         // how many of the cluster's devices to use
  std::int64_t batch;  // global batch, samples
  int microbatches;    // per update
  std::function<Seconds(const PlannedPipeline&)> simulate;
  // The costs with micro-batches of another size, for planners that choose it. Empty: only as `costs`, and larger ones
  // in proportion.
  std::function<std::shared_ptr<const CostGraph>(std::int64_t micro_batch)> costs_at = {};
  // What a set of layers (ascending) keeps on its device, always and between F and B of every micro-batch, whatever its
  // size and for every sample. Empty: not known, so planners go by LayerCost: twice the parameters, and the outputs.
  struct Footprint {
    Bytes always, per_micro_batch, per_sample;
  };
  std::function<Footprint(std::span<const int> layers)> footprint = {};
  // Only forwards run: `costs` has times for nothing else, replicas of a stage exchange no gradients, and the footprint
  // is that of the weights, with what passes through for every sample.
  bool inference = false;
  // Whether balanced cuts count the messages over them as well as the layers (chain_partition.h).
  bool cuts_count_messages = false;
  std::vector<int> cut_before = {};  // balanced cuts are before one of these layers, ascending; empty: before any
  // Given stages: the first layer of each from the second on, ascending. Empty: the system cuts the model.
  std::vector<int> first_layers = {};
  // Of a system that divides words, per layer: the device that holds it as its slice of the words, -1 for the layers of
  // the pipeline. Empty: words are not divided.
  std::vector<int> word_slices = {};
  // Of one pipeline, where micro-batches differ: `costs` are of the largest.
  MicrobatchSizes sizes = {};
  // What a search may use: devices of a stage that are replicas, and seconds of its thread, after which it ends with
  // what it has. Asked of System::candidates.
  int max_replicas = std::numeric_limits<int>::max();
  double search_seconds = std::numeric_limits<double>::infinity();
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
  int microbatches_per_update = 1;   // asynchronous systems that accumulate
  int epoch = 0;                     // of the training, where a system changes with it
  StageOrders order = {};            // PlannedPipeline::order
  std::vector<bool> recompute = {};  // per stage, PlanStage::recompute; empty: none
  // For orders that are searched (System::searches_order). Per stage: of a message between it and the next one; empty:
  // `latency`. And the share of what a micro-batch holds between F and I that it still holds between I and W; empty:
  // all.
  std::vector<Seconds> messages = {};
  std::vector<double> weight_stash_share = {};
  // For systems that offload. Per stage: of one way of a stash between device and host; empty: not known.
  std::vector<Seconds> host_copies = {};
  int sequence_chunks = 1;     // of every micro-batch (Plan::sequence); the schedule counts each
  MicrobatchSizes sizes = {};  // of the micro-batches of an update, where they differ: `costs` are of the largest

  int stages() const { return graph.stages(); }
  int chunks() const { return stages() / ranks; }  // stages on every rank
  // The rank that runs a stage, where only one does.
  Rank rank_of(int stage) const { return placement.stages[stage].front(); }
};

// Seconds of a message between a stage and the next one.
inline double message_seconds(const ScheduleProblem& problem, int stage) {
  const auto s = static_cast<std::size_t>(stage);
  return s < problem.messages.size() ? problem.messages[s].value : problem.latency.value;
}

// Where the stages of a chain lie, several on every device: stage c p + r on device r (loop); or back and forth, so
// that for odd c stage (c + 1) p - 1 - r is on device r and devices at the turning points have two in a row (wave).
enum class ChunkPlacement { loop, wave };

// The defaults of a System, for those that update once after the last backward.
inline WeightRule newest_weights(const ScheduleProblem&, const Options&) { return {}; }
inline Theory theory_of_a_flush(const ScheduleProblem& problem, const Options&) { return flush_theory(problem.ranks); }

// What a run has shown of its ranks so far, for a system that changes its plan as they change.
struct ObservedWindow {
  std::size_t plan = 0;           // index into Observations::plans
  std::int64_t updates = 0;       // in the window
  std::vector<double> compute;    // per rank: seconds of its forwards and backwards in the window
  std::vector<double> transfers;  // per edge of a chain: seconds that a message was on its way, mean; empty: not known
};
struct Observations {
  std::span<const Plan> plans;              // in the order in which they ran; the last one runs now
  std::span<const ObservedWindow> windows;  // of the whole run, oldest first
  std::int64_t updates_left = 0;
};
struct Adaptation {
  Plan plan;                       // of as many stages on the same devices
  std::int64_t after_updates = 0;  // how many updates are still begun under the old plan
  // The whole job begins again from a checkpoint, after a pause, instead of moving layers between the ranks.
  bool restart = false;
  Seconds pause{};
};

struct CoRunFile;  // co_runs.h
struct CoRunProblem;
// Samples of an update, of different lengths. A micro-batch is padded to its longest sample.
struct SamplesToGroup {
  std::vector<std::int64_t> lengths;
  int ranks = 1;
  std::int64_t overhead = 0;  // of a micro-batch, whatever it holds, in units of length
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();  // of a micro-batch: samples times the longest
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
  bool one_process = false;  // takes one device whatever it is given: the reference row
  // Why it takes micro-batches of one size only, for planners whose objective says so; empty: sizes may differ.
  std::string one_size_only = {};
  bool data_parallel = false;   // the whole model on every rank, each with its own micro-batches
  bool divides_words = false;   // head and embedding are cut by words over all ranks (model/word_slices.h)
  bool accumulates = false;     // asynchronous, but several micro-batches make one update
  bool inference_only = false;  // plans pipelines of forwards and has no order of backwards
  bool searches_order = false;  // its schedule reads ScheduleProblem::messages and weight_stash_share
  std::vector<OptionSpec> options = {};
  // Throws InputError for numbers of ranks and micro-batches (of one update) that it has no plan for; `schedule` throws
  // where it has a plan but no order. Asked once, before the plan is made. None: it takes all.
  void (*require)(int ranks, int microbatches, const Options&) = nullptr;
  // Stages on every rank (virtual stages) of its plans, and where they lie; none: 1.
  int (*chunks)(const Options&) = nullptr;
  ChunkPlacement chunk_placement = ChunkPlacement::loop;
  // Into how many chunks the sequences of every micro-batch are cut; none: they stay whole. Of systems with a flush.
  SequenceChunks (*sequence)(const Options&) = nullptr;
  // Whether no plan of it weighs cuts as balanced cuts do, so that Problem::cuts_count_messages has no effect; none:
  // some plan may.
  bool (*own_cuts)(const Options&) = nullptr;
  // How many of the first micro-batches of an update its order takes as two halves each; none: 0. A case that gives no
  // sizes then gets those of the halves. Fewer than all.
  int (*halved)(const Options&) = nullptr;
  // Which micro-batches it forms of samples of different lengths: the size of each in units of length, padding and
  // overhead included; none: it forms none.
  std::vector<std::int64_t> (*group_samples)(const SamplesToGroup&) = nullptr;
  // Which layers on which devices; a planner that decides no order returns a Plan. None: a chain of equally slow
  // stages, `chunks` on every device.
  std::function<PlannedPipeline(const Problem&, const Options&)> plan = nullptr;
  // A planner instead: the plans that its search keeps, such as the best one of every number of stages, at least one,
  // each with its objective (Plan::search). Which of them is taken, and under which limits it is asked: make_plan.h.
  std::function<std::vector<PlannedPipeline>(const Problem&, const Options&)> candidates = nullptr;
  // The order of forwards and backwards on every rank.
  Schedule (*schedule)(const ScheduleProblem&, const Options&);
  // The same order as a rule, of a chain whose stages go round the ranks, so that it is timed without holding its ops
  // (sim/chain_clock.h). Empty for options with another order. None: only `schedule` says.
  OpRule (*op_rule)(const ScheduleProblem&, const Options&) = nullptr;
  WeightRule (*weights)(const ScheduleProblem&, const Options&) = newest_weights;
  Theory (*theory)(const ScheduleProblem&, const Options&) = theory_of_a_flush;
  // Whether `plan` may put a stage on several devices that reduce its gradients; none: it never does. Not asked where
  // .data_parallel says so.
  bool (*replicates)(const Options&) = nullptr;
  // Another plan for the rest of the run; none: it goes on. Asked between updates, after every `window` of them. Of
  // asynchronous chains with a stage a rank.
  std::optional<Adaptation> (*adapt)(const Observations&, const Problem&, const Options&) = nullptr;
  int (*window)(const Options&) = nullptr;  // where `adapt` is given: updates
  // Changes that its options prescribe, by the updates done before each (after_updates is not used); then `adapt` is
  // never asked. Throws InputError for plans that the problem does not have.
  std::map<std::int64_t, Adaptation> (*prescribed)(const Problem&, const Options&) = nullptr;
  // Where weights are gathered and gradients scattered; none: every rank holds its stages whole.
  Sharding (*sharding)(const ScheduleProblem&, const Options&) = nullptr;
  // Which stashes wait in the host's memory under its schedule; none: all stay on the device.
  Offload (*offload)(const ScheduleProblem&, const Schedule&, const Options&) = nullptr;
  // Whether its order has overlapped pairs (schedule.h), whose cost (Cluster::pair_share) then has an effect; none: no.
  bool (*pairs)(const Options&) = nullptr;
  // Of an order that exists for one size only: that size, which a case has unless it says another; none: any.
  PipelineSize (*made_for)(const Options&) = nullptr;
  // The file of `sluice profile --co-run`, which options of its own take; none: it learns from no co-runs.
  CoRunFile (*co_run_file)(const CoRunProblem&) = nullptr;

  bool is_called(const std::string& text) const { return text == name || std::ranges::count(aliases, text) > 0; }
};

inline int stages_per_rank(const System& system, const Options& options) {
  return system.chunks ? system.chunks(options) : 1;
}

// `systems`. Throws InputError where two of them have one name or alias.
std::vector<const System*> with_names_of_their_own(std::vector<const System*> systems);

// The table of this build, which CMake makes from file names, in their order: baselines/, systems/, then the folders of
// SLUICE_EXTRA_SYSTEMS. Throws as with_names_of_their_own().
std::span<const System* const> all_systems();
std::span<const System* const> shipped_systems();  // those of baselines/ and systems/
// "file:order.csv" is the system order_file (baselines/order_file) with this file. It is in no table.
constexpr std::string_view kOrderFromFile = "file:";
// The systems that "*" (all), "*synchronous" (all with a flush) or "*asynchronous" (all without one) stands for; empty
// for other names.
std::vector<const System*> systems_of_pattern(const std::string& name);
// By name, alias or as "file:..."; null: not in this build.
const System* system_called(const std::string& name);
const System& find_system(const std::string& name, const std::string& where);  // throws InputError with a suggestion

// The schedule that has no op yet.
Schedule empty_schedule(const ScheduleProblem& problem);

// Requirements that several systems share, for System::require; `system` is the name in the error.
void require_a_micro_batch_for_every_rank(const std::string& system, int ranks, int microbatches);

}  // namespace sluice
