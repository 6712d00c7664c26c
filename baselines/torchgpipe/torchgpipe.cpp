// torchgpipe (Kim et al., arXiv 2004.09910): GPipe's schedule on a sequence of layers cut by a
// balance: how many layers each device gets, from measured times (balance=time, its by_time: whole
// microseconds of forward and backward) or from bytes (balance=size, its by_size: outputs plus
// twice the parameters), by the block partition of Barany and Grinberg; balance=exact is the exact
// min-max cut of the same times, which that does not reach. Communication is ignored. p = 3, m = 4:
//
//   rank 0  F0 F1 F2 F3             .  .  .  .  B3 B2 B1 B0
//   rank 1     F0 F1 F2 F3       .  B3 B2 B1 B0
//   rank 2        F0 F1 F2 F3 B3 B2 B1 B0
//
// checkpoint=except_last, its default, recomputes all micro-batches but the last of an update, always recomputes all of
// them and never none. A recomputation does not wait for the gradient (its early recomputation).
#include <algorithm>
#include <cmath>

#include "baselines/torchgpipe/block_partition.h"
#include "harness/base/error.h"
#include "harness/pipeline/choice_option.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/chain_partition.h"
#include "harness/plan/layer_groups.h"
#include "harness/plan/recompute_option.h"
#include "harness/plan/search.h"

namespace sluice {

namespace {
enum class Checkpoint { except_last, always, never };
}  // namespace

static const ChoiceOption<Checkpoint> checkpoint_option("checkpoint",
                                                        "which micro-batches are recomputed before their backward: "
                                                        "all but the last, all or none",
                                                        {{"except_last", Checkpoint::except_last},
                                                         {"always", Checkpoint::always},
                                                         {"never", Checkpoint::never}});

static WeightRule torchgpipe_weights(const ScheduleProblem&, const Options& options) {
  const Checkpoint checkpoint = checkpoint_option(options);
  using Recompute = WeightRule::Recompute;
  return {.recompute = checkpoint == Checkpoint::never ? Recompute::none : Recompute::forward_weights,
          .keep_last = checkpoint == Checkpoint::except_last};
}

static std::vector<int> balance_of(const LayerGroupGraph& graph, int stages, const std::string& by) {
  std::vector<double> values;
  for (const LayerGroup& group : graph.groups)
    values.push_back(by == "size" ? group.kept + group.resident : std::floor(group.seconds() * 1e6));
  if (by != "exact") return block_partition(values, stages);
  std::vector<double> prefix{0};
  for (const LayerGroup& group : graph.groups) prefix.push_back(prefix.back() + group.seconds());
  const std::vector<int> cuts = partition_chain(static_cast<int>(values.size()), stages,
                                                [&](int first, int last, int) { return prefix[last] - prefix[first]; });
  std::vector<int> sizes;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) sizes.push_back(cuts[s + 1] - cuts[s]);
  return sizes;
}

static std::vector<PlannedPipeline> torchgpipe_plan(const Problem& problem, const Options& options) {
  const LayerGroupGraph graph = layer_groups(problem.costs);
  const int groups = static_cast<int>(graph.groups.size()), stages = problem.devices;
  if (stages > groups)
    throw InputError("torchgpipe", std::to_string(stages) + " partitions of " + std::to_string(groups) + " layers",
                     "use at most as many devices as layers");
  if (static_cast<std::size_t>(stages) > problem.cluster.devices.size())
    throw InputError(
        "torchgpipe",
        std::to_string(stages) + " devices of a cluster of " + std::to_string(problem.cluster.devices.size()),
        "use fewer devices or a larger cluster");
  Plan plan{.micro_batch = problem.costs.micro_batch};
  int first = 0;
  for (const int size : balance_of(graph, stages, options.text("balance"))) {
    plan.stages.push_back({.layers = layers_of(graph, first, first + size), .devices = {DeviceId(plan.stages.size())}});
    first += size;
  }
  plan.search = {.objective_name = "slowest partition's seconds per micro-batch", .states = groups};
  for (const StageCost& c : stage_costs(plan, problem.costs, problem.cluster))
    plan.search.objective = std::max(plan.search.objective, (c.forward + c.input_gradient + c.weight_gradient).value);
  return {plan};
}

static Theory torchgpipe_theory(const ScheduleProblem& problem, const Options& options) {
  Theory theory = flush_theory(problem.ranks);
  theory.in_flight.assign(problem.ranks, problem.microbatches);
  // Of all but the last recomputed: none by a formula.
  if (checkpoint_option(options) == Checkpoint::never)
    theory.bubble_ratio = fill_drain_bubble(problem.ranks, problem.microbatches);
  if (checkpoint_option(options) == Checkpoint::always)
    theory.bubble_ratio = fill_drain_bubble(problem.ranks, problem.microbatches, Recomputation::all);
  return theory;
}

extern const System torchgpipe;
const System torchgpipe = {
    .name = "torchgpipe",
    .aliases = {},
    .title = "torchgpipe",
    .citation =
        "Kim et al., torchgpipe: On-the-fly Pipeline Parallelism for Training Giant Models, 2020 "
        "(arXiv 2004.09910)",
    .written_from = {WrittenFrom::code, {{"balance=exact", WrittenFrom::ours}}, "balance=exact is ours."},
    .synchronous = true,
    .options = {{"balance",
                 "time",
                 "what the cut balances: time, size (bytes), or exact (times, min-max)",
                 {"time", "size", "exact"}},
                training_only(checkpoint_option.spec())},
    .own_cuts = [](const Options&) { return true; },
    .candidates = torchgpipe_plan,
    .schedule = [](const ScheduleProblem& problem,
                   const Options&) { return orders::fill_drain(problem, BackwardOrder::lifo); },
    .weights = torchgpipe_weights,
    .theory = torchgpipe_theory,
};

}  // namespace sluice
