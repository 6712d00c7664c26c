// DAPPLE (Fan et al., PPoPP 2021): synchronous training with early backward, planned for the least
// latency of one iteration, all-reduces included (baselines/dapple/dapple_search.h). Early backward
// keeps stage s of S at K = min(S - s, m) micro-batches (warm_up=a, the paper's policy PA) or 2(S -
// s) - 1 (warm_up=b, PB, where transfers are long). p = 3, m = 4, PA:
//
//   rank 0  F0 F1 F2       B0 F3 B1    B2    B3
//   rank 1     F0 F1    B0 F2 B1 F3 B2    B3
//   rank 2        F0 B0 F1 B1 F2 B2 F3 B3
//
// Written from memory of the paper, its formula of the latency included (latency_model.h); the placement policies were
// read in code. As remembered, the paper splits a micro-batch over a stage's replicas; here replicas take whole
// micro-batches in turn, so a stage gets at most as many devices as there are micro-batches.
#include "baselines/dapple/dapple_search.h"
#include "harness/base/error.h"
#include "harness/pipeline/system.h"
#include "harness/plan/machines.h"
#include "harness/plan/planner_options.h"
#include "harness/plan/replicated_schedule.h"

namespace sluice {

// Of every number of stages the best.
static std::vector<PlannedPipeline> dapple_plans(const Problem& problem, const Options&) {
  DappleOptions dapple_options{.devices = problem.devices,
                               .microbatches = problem.microbatches,
                               .max_replicas = std::min(problem.microbatches, problem.max_replicas),
                               .limits = {.seconds = problem.search_seconds}};
  const LayerGroupGraph graph = layer_groups(problem.costs);
  const DappleResult result = dapple_search(graph, problem.cluster, dapple_options);
  if (result.by_stages.empty())
    throw InputError("dapple",
                     "no plan on " + std::to_string(problem.devices) + " devices fits" +
                         (result.complete ? "" : " was found in time"),
                     "use more devices, more micro-batches or devices with more memory");
  std::vector<PlannedPipeline> plans;
  for (const auto& [count, found] : result.by_stages) {
    Plan& plan = plans.emplace_back(Plan{.micro_batch = problem.costs.micro_batch}).plan;
    for (const DappleStage& stage : found.stages)
      plan.stages.push_back({.layers = layers_of(graph, stage.first, stage.last), .devices = stage.devices});
    plan.search = {.objective = found.latency.seconds,
                   .objective_name = "seconds of one iteration",
                   .states = result.states,
                   .complete = result.complete};
  }
  return plans;
}

static std::vector<int> dapple_in_flight(const ScheduleProblem& problem, const Options& options) {
  std::vector<int> in_flight = round_robin_in_flight(problem.placement);
  const auto stages = static_cast<int>(in_flight.size());
  if (options.text("warm_up") == "b")
    for (int s = 0; s < stages; ++s) in_flight[s] = std::max(in_flight[s], 2 * (stages - s) - 1);
  return in_flight;
}

extern const System dapple;
const System dapple = {
    .name = "dapple",
    .aliases = {},
    .title = "DAPPLE",
    .citation =
        "Fan et al., DAPPLE: A Pipelined Data Parallel Approach for Training Large Models, PPoPP "
        "2021",
    .written_from = {WrittenFrom::memory,
                     {{"placement policies", WrittenFrom::code},
                      {"whole micro-batches for replicas", WrittenFrom::ours}},
                     "Replicas take whole micro-batches in turn; the paper, as remembered, splits each micro-batch."},
    .synchronous = true,
    .one_size_only = "its planner's objective is for micro-batches of one size",
    .options = {{"warm_up",
                 "a",
                 "max micro-batches in flight on stage s of S: a, S - s (policy PA); b, 2(S - s) - 1 (policy PB)",
                 {"a", "b"}},
                rank_option(),
                search_seconds_option()},
    .own_cuts = [](const Options&) { return true; },
    .candidates = dapple_plans,
    .schedule =
        [](const ScheduleProblem& problem, const Options& options) {
          return replicated_one_f_one_b(problem, dapple_in_flight(problem, options), "dapple");
        },
    .theory = [](const ScheduleProblem& problem,
                 const Options& options) { return flushed_chain_theory(problem, dapple_in_flight(problem, options)); },
    .replicates = [](const Options&) { return true; },
};

}  // namespace sluice
