// PipeDream (Narayanan et al., SOSP 2019, arXiv 1806.03377): 1F1B over whole mini-batches without a
// flush; every stage updates after each of its backwards, so batches in flight were forwarded on
// older weights. The pipe is filled once an epoch and drained before evaluation. The order is drawn
// in harness/plan/one_f_one_b_without_flush.h.
//
// weights=stash (section 3.3, weight stashing): a batch's backward on a stage reads the tensor its
//   forward read; the forward reads the newest. Stage k keeps p - k versions.
// weights=vertical_sync (section 3.3): every stage uses the version that stage 0 had when the batch
//   entered; from memory, off by default in the paper. p versions on every stage.
// weights=naive: no stash; the backward reads whatever is newest. The straw man the paper argues
//   against.
// weights=ring: as the released code stashes, in a ring by position, which a drained pipe does not
//   refresh: from the second epoch on, the first p - 1 - k batches of stage k run backward on
//   versions of the epoch before.
//
// A replicated stage (1F1B-RR) updates after one batch on each of its replicas, with their mean
// gradient, and at a learning rate in proportion to them.
//
// planner=paper is section 3.1's partitioning, from memory (pipedream_partition.h), code the
// released optimizer's; both may replicate stages, whose replicas then take the mini-batches in
// turn (1F1B-RR). planner=balanced cuts the layers into as many stages as devices by compute alone.
#include <algorithm>

#include "baselines/pipedream/pipedream_partition.h"
#include "harness/base/error.h"
#include "harness/plan/chain_partition.h"
#include "harness/plan/machines.h"
#include "harness/plan/one_f_one_b_without_flush.h"
#include "harness/plan/planner_options.h"

namespace sluice {

// Gives out devices level by level: the stages of a level within [first, last) take their machines
// from every block in turn, a block being what a stage one level up has. `blocks`: first devices of
// blocks; `size`: devices of one machine of this level.
static void give_devices(const PipeDreamResult& result, const std::vector<MachineLevel>& levels, std::size_t level,
                         int first, int last, const std::vector<int>& blocks,
                         std::vector<std::vector<int>>& devices_of) {
  int size = 1, taken = 0;
  for (std::size_t k = 0; k < level; ++k) size *= levels[k].count;
  for (const PipeDreamStage& stage : result.by_level[level]) {
    if (stage.first < first || stage.last > last) continue;
    const int machines = stage.machines.front();
    std::vector<int> own;
    for (const int block : blocks)
      for (int q = 0; q < machines; ++q) own.push_back(block + (taken + q) * size);
    taken += machines;
    if (level > 0)
      give_devices(result, levels, level - 1, stage.first, stage.last, own, devices_of);
    else
      devices_of.push_back(own);
  }
}

static std::vector<PlannedPipeline> pipedream_plan(const Problem& problem, const Options& options) {
  const std::string& planner = options.text("planner");
  if (planner == "balanced") return {balanced_chain(problem, problem.devices, "pipedream")};
  const MachineTree tree = machine_tree(Bandwidths(problem.cluster, problem.devices));
  PipeDreamOptions search{.form = planner == "paper" ? PipeDreamOptions::Form::paper : PipeDreamOptions::Form::code,
                          .max_replicas = options.flag("replication") ? problem.max_replicas : 1,
                          .limits = {.seconds = problem.search_seconds}};
  for (std::size_t k = 0; k < tree.counts.size(); ++k) search.levels.push_back({tree.counts[k], tree.bandwidths[k]});
  const CostGraph costs = costs_on_slowest(problem.costs, problem.cluster, problem.devices);
  const LayerGroupGraph graph = layer_groups(costs);
  // Pairs of states are tables of the search. A graph with too many is cut as a chain, and a chain
  // with too many in fewer places.
  const std::int64_t max_states =
      std::min<std::int64_t>(1'000, states_within(std::int64_t{options.integer("table_limit")} << 20, search.levels));
  AntichainStates states = antichain_states(graph, max_states);
  if (!states.complete) states = thinned(states, static_cast<std::size_t>(max_states));
  const PipeDreamResult result = pipedream_partition(states, search);
  if (result.stages.empty())
    throw InputError("pipedream",
                     "no plan uses all " + std::to_string(problem.devices) + " devices" +
                         (result.complete ? "" : ", or none was found in time"),
                     "use fewer devices, or --set replication=yes");
  std::vector<std::vector<int>> devices_of;
  give_devices(result, search.levels, search.levels.size() - 1, 0, static_cast<int>(states.size()), {0}, devices_of);
  Plan plan{.micro_batch = problem.costs.micro_batch};
  std::vector<bool> placed(graph.groups.size());
  for (std::size_t s = 0; s < result.stages.size(); ++s) {
    PlanStage& stage = plan.stages.emplace_back();
    for (const int group : states.groups[result.stages[s].last - 1]) {
      if (placed[group]) continue;
      placed[group] = true;
      const std::vector<int> layers = layers_of(graph, group, group + 1);
      stage.layers.insert(stage.layers.end(), layers.begin(), layers.end());
    }
    std::ranges::sort(stage.layers);
    for (const int d : devices_of[s]) stage.devices.push_back(tree.order[d]);
  }
  plan.search = {.objective = result.seconds,
                 .objective_name = "slowest stage's seconds per mini-batch",
                 .states = result.states,
                 .complete = states.complete && result.complete};
  return {plan};
}

static WeightRule pipedream_weights(const ScheduleProblem&, const Options& options) {
  WeightRule rule{.update = WeightRule::Update::every_backward};
  const std::string& weights = options.text("weights");
  if (weights == "naive") rule.backward = WeightRule::Backward::newest;
  if (weights == "ring") rule.backward = WeightRule::Backward::ring;
  if (weights == "vertical_sync") rule.forward = WeightRule::Forward::vertical_sync;
  return rule;
}

static Theory pipedream_theory(const ScheduleProblem& problem, const Options& options) {
  Theory theory = theory_of_one_f_one_b_without_flush(problem, 1);
  const int p = problem.ranks, n = problem.microbatches;
  const std::string& weights = options.text("weights");
  for (int r = 0; r < p && !theory.in_flight.empty(); ++r) {
    // p - r (or p) once the pipe is full; the w batches that fill it all read version 0.
    const int w = std::min(n, weights == "stash" ? p - r : p);
    int versions = std::min(w, n - w + 2);
    if (weights == "naive") versions = 1;
    if (weights == "ring") versions = p - r;  // those of the epoch before stay as well
    theory.weight_versions.push_back(versions);
    if (weights == "vertical_sync") theory.staleness[r] = std::min(n - 1, p - 1);
  }
  return theory;
}

static OptionSpec searched(OptionSpec spec) { return only_with(std::move(spec), "planner", {"paper", "code"}); }

extern const System pipedream;
const System pipedream = {
    .name = "pipedream",
    .aliases = {},
    .title = "PipeDream",
    .citation =
        "Narayanan et al., PipeDream: Generalized Pipeline Parallelism for DNN Training, SOSP 2019 "
        "(arXiv 1806.03377)",
    .written_from = {WrittenFrom::code,
                     {{"planner=paper", WrittenFrom::memory},
                      {"weights=vertical_sync", WrittenFrom::memory},
                      {"planner=balanced", WrittenFrom::ours}},
                     "planner=balanced is ours."},
    .synchronous = false,
    .options = {training_only({"weights",
                               "stash",
                               "weight versions: stash (the paper's default, as remembered), vertical_sync (from "
                               "memory), naive (no stash) or ring "
                               "(the released code's stash, stale after a drained epoch)",
                               {"stash", "vertical_sync", "naive", "ring"}}),
                {"planner",
                 "balanced",
                 "how stages are cut: balanced (by compute, one device each), paper (section 3.1, from memory) or "
                 "code (the released optimizer's form of it)",
                 {"balanced", "paper", "code"}},
                searched({"replication", "yes", "may replicate stages", kYesNo}),
                searched(rank_option(/*newer=*/true)),
                searched(search_seconds_option()),
                searched({"table_limit", "2048",
                          "MiB of search tables; a model that needs more is cut in fewer "
                          "places"})},
    .candidates = pipedream_plan,
    .schedule = [](const ScheduleProblem& p, const Options&) { return one_f_one_b_without_flush(p); },
    .weights = pipedream_weights,
    .theory = pipedream_theory,
    .replicates =
        [](const Options& options) { return options.text("planner") != "balanced" && options.flag("replication"); },
};

}  // namespace sluice
