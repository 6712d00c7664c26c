// AutoPipe (Liu et al., CLUSTER 2022): a planner of 1F1B that cuts below whole layers, by the simulated time of an
// update (autopipe_search.h), and a slicer. Blocks are the model's own layers here. The order is 1F1B; p = 3, m = 4:
//
//   rank 0  F0 F1 F2       B0 F3 B1    B2    B3
//   rank 1     F0 F1    B0 F2 B1 F3 B2    B3
//   rank 2        F0 B0 F1 B1 F2 B2 F3 B3
//
// The slowest stage alone does not decide: of three blocks of F 1 and B 2 on two devices, 1 | 2 takes 27 for four
// micro-batches and 2 | 1 takes 25.
//
// The slicer cuts the first n = `sliced` micro-batches into halves, so that the pipe fills in half the time. Here the
// halves are micro-batches of their own, of half the size, and 1F1B counts the two of a whole one as one. p = 3, m = 3
// whole ones of F 2 and B 4, n = 1 (0 and 1 are the halves):
//
//   rank 0  F0F1F2--F3--....B0--B1--............B2------....B3------
//   rank 1  ..F0F1..F2--B0--B1--F3--....B2------....B3------........
//   rank 2  ....F0F1B0--B1--F2--B2------F3--B3------................
//
// With equal stages and B >= F / 2 the last rank begins after (p - 1) F / 2 in place of (p - 1) F, and never waits then
// if the first whole micro-batch is there in time: it comes to the last rank at (n + p - 1) F, and is wanted at
// (p - 1) F / 2 + n (F + B). So n >= (p - 1) F / (2 B), a quarter of p - 1 rounded up for B = 2 F, and the makespan is
// m (F + B) + (p - 1)(F / 2 + B). Activations held are those of 1F1B.
//
// The abstract says that the slicer halves the start-up and finds how many micro-batches to cut; the order of the
// halves and n are derived here, and the default is 0: not every case can have micro-batches of two sizes.
#include "baselines/autopipe/autopipe_search.h"
#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/chain_partition.h"
#include "harness/plan/layer_groups.h"
#include "harness/plan/planner_options.h"

namespace sluice {

static std::vector<PlannedPipeline> autopipe_plans(const Problem& problem, const Options&) {
  const LayerGroupGraph graph = layer_groups(problem.costs);
  if (count_of(graph.groups) <= problem.devices) return {balanced_chain(problem, problem.devices, "autopipe")};
  std::vector<BlockSeconds> blocks;
  for (const LayerGroup& group : graph.groups) blocks.push_back({group.forward, group.backward});
  std::vector<double> speeds;
  for (int d = 0; d < problem.devices; ++d) speeds.push_back(problem.cluster.devices[d].speed);
  const AutoPipeResult result = autopipe_search(blocks, speeds, {.seconds = problem.search_seconds});
  std::vector<PlannedPipeline> plans;
  for (const AutoPipeCut& cut : result.kept) {
    Plan& plan = plans.emplace_back(Plan{.micro_batch = problem.costs.micro_batch}).plan;
    for (int s = 0; s < problem.devices; ++s)
      plan.stages.push_back({.layers = layers_of(graph, cut.starts[s], cut.starts[s + 1]), .devices = {DeviceId(s)}});
    plan.search = {.objective = cut.seconds,
                   .objective_name = "seconds of 1F1B with two micro-batches for every stage",
                   .states = result.states,
                   .complete = result.complete};
  }
  return plans;
}

static int sliced(const Options& options) { return options.integer("sliced"); }

// 1F1B, the halves of a micro-batch after each other.
static Schedule autopipe_schedule(const ScheduleProblem& problem, const Options& options) {
  const int n = sliced(options);
  if (n == 0) return orders::one_f_one_b(problem);
  const int p = problem.ranks, whole = problem.microbatches - n;
  if (n > whole)
    throw InputError("autopipe",
                     "sliced=" + std::to_string(n) + ", and " + std::to_string(problem.microbatches) +
                         " micro-batches are not twice as many",
                     "slice fewer, or count each half as a micro-batch");
  Schedule schedule = empty_schedule(problem);
  for (int r = 0; r < p; ++r) {
    const auto add = [&](int k, auto op) {
      if (k < n) schedule.ranks[r].push_back(op(r, 2 * k));
      schedule.ranks[r].push_back(op(r, k < n ? 2 * k + 1 : k + n));
    };
    orders::one_forward_one_backward(
        whole, std::min(p - 1 - r, whole), [&](int k) { add(k, forward_op); }, [&](int k) { add(k, backward_op); });
  }
  return schedule;
}

static Theory autopipe_theory(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, n = sliced(options), whole = problem.microbatches - n;
  Theory theory = flush_theory(p);
  if (n == 0) theory.bubble_ratio = fill_drain_bubble(p, whole);
  theory.in_flight = list_of(p, [&](int r) {
    const int held = std::min(whole, p - r);
    return held + std::min(n, held);
  });
  return theory;
}

extern const System autopipe = {
    .name = "autopipe",
    .title = "AutoPipe",
    .citation =
        "Liu et al., AutoPipe: A Fast Pipeline Parallelism Approach with Balanced Partitioning and Micro-batch "
        "Slicing, CLUSTER 2022; planner as in the authors' code (Merak)",
    .written_from = {WrittenFrom::code,
                     {{"slicer", WrittenFrom::abstract},
                      {"order and number of sliced micro-batches", WrittenFrom::ours},
                      {"blocks of whole layers", WrittenFrom::ours}},
                     "The halves of a sliced micro-batch are micro-batches of their own, and how many have to be "
                     "sliced is derived here; blocks are whole layers of the model, not parts of layers."},
    .options = {training_only({.name = "sliced",
                               .default_value = "0",
                               .help = "how many of the first micro-batches are cut into halves, to fill the pipe in "
                                       "half the time; (ranks - 1) F / (2 B), rounded up, are enough. A case without "
                                       "microbatch_sizes gets the sizes of the halves",
                               .minimum = 0}),
                rank_option(), search_seconds_option()},
    .own_cuts = [](const Options&) { return true; },
    .halved = sliced,
    .candidates = autopipe_plans,
    .schedule = autopipe_schedule,
    .op_rule =
        [](const ScheduleProblem& problem, const Options& options) {
          return sliced(options) == 0 ? orders::one_f_one_b_rule(problem.stages(), problem.microbatches) : OpRule{};
        },
    .theory = autopipe_theory,
};

}  // namespace sluice
