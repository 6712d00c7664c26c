// AutoPipe (Liu et al., CLUSTER 2022): a planner of 1F1B that cuts below whole layers, by the simulated time of an
// update (autopipe_search.h). Blocks are the model's own layers here. The order is 1F1B; p = 3, m = 4:
//
//   rank 0  F0 F1 F2       B0 F3 B1    B2    B3
//   rank 1     F0 F1    B0 F2 B1 F3 B2    B3
//   rank 2        F0 B0 F1 B1 F2 B2 F3 B3
//
// The slowest stage alone does not decide: of three blocks of F 1 and B 2 on two devices, 1 | 2 takes 27 for four
// micro-batches and 2 | 1 takes 25, since the critical stage is then the first: it waits for no forward at the start,
// and for no backward at the end.
#include "baselines/autopipe/autopipe_search.h"
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

static Theory autopipe_theory(const ScheduleProblem& problem, const Options&) {
  const int p = problem.ranks, m = problem.microbatches;
  Theory theory = flush_theory(p);
  theory.bubble_ratio = fill_drain_bubble(p, m);
  theory.in_flight = list_of(p, [&](int r) { return std::min(m, p - r); });
  return theory;
}

extern const System autopipe = {
    .name = "autopipe",
    .title = "AutoPipe",
    .citation =
        "Liu et al., AutoPipe: A Fast Pipeline Parallelism Approach with Balanced Partitioning and Micro-batch "
        "Slicing, CLUSTER 2022; planner as in the authors' code (Merak)",
    .written_from = {WrittenFrom::code,
                     {{"choice of the critical stage where every stage waits", WrittenFrom::ours}},
                     "Blocks are whole layers of the model, and the released code's rule for the stages behind the "
                     "critical one is left out."},
    .options = {rank_option(), search_seconds_option()},
    .own_cuts = [](const Options&) { return true; },
    .candidates = autopipe_plans,
    .schedule = [](const ScheduleProblem& problem, const Options&) { return orders::one_f_one_b(problem); },
    .op_rule = [](const ScheduleProblem& problem,
                  const Options&) { return orders::one_f_one_b_rule(problem.stages(), problem.microbatches); },
    .theory = autopipe_theory,
};

}  // namespace sluice
