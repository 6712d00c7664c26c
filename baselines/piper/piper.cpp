// Piper (Tarnawski, Narayanan, Phanishayee, NeurIPS 2021): splits a DAG of layers over stages with
// their own data- and tensor-parallel degrees and per-layer recomputation, for the least time per
// micro-batch in the steady state (baselines/piper/piper_search.h is its algorithm). Trained as
// flushed 1F1B; a stage's d replicas take the micro-batches in turn, which is what its memory bound
// counts: ceil(s/d) in flight, s being the replicas of this stage and those after it. Stage 0 on two devices, stage 1
// on one:
//
//   rank 0  F0    F2 B0       B2
//   rank 1     F1       F3 B1    B3
//   rank 2     F0 B0 F1 B1 F2 B2 F3 B3
//
// One bandwidth serves every pair (the paper has no hierarchy): the cluster's slowest. Layers
// without published variants run on one device each; a stage of theirs keeps their outputs for the
// backward, or, where memory is short, recomputes as a whole: it keeps what it receives, runs its
// forward again before every backward, and pays the forward's time for it.
#include "baselines/piper/piper_search.h"
#include "harness/base/error.h"
#include "harness/pipeline/system.h"
#include "harness/plan/machines.h"
#include "harness/plan/planner_options.h"
#include "harness/plan/replicated_schedule.h"

namespace sluice {

static std::vector<PlannedPipeline> piper_plan(const Problem& problem, const Options& options) {
  const Bandwidths bandwidths(problem.cluster, problem.devices);
  PiperOptions piper_options{.devices = problem.devices,
                             .microbatches = problem.microbatches,
                             .bandwidth = bandwidths.slowest(),
                             .memory = smallest_memory(problem.cluster, problem.devices),
                             .exact_knapsack = options.text("knapsack") == "exact",
                             .max_data = options.flag("data_parallel") ? problem.max_replicas : 1,
                             .tensor_parallel = options.flag("tensor_parallel"),
                             .recompute = options.flag("recompute"),
                             .limits = {.seconds = problem.search_seconds}};
  const CostGraph costs = costs_on_slowest(problem.costs, problem.cluster, problem.devices);
  const PiperResult result = piper_search(costs, piper_options);
  if (result.stages.empty())
    throw InputError("piper",
                     "no plan on " + std::to_string(problem.devices) + " devices of " +
                         to_text(Bytes(static_cast<std::int64_t>(piper_options.memory))) + " fits" +
                         (result.complete ? "" : " was found in time"),
                     "use more devices or devices with more memory");
  Plan plan{.micro_batch = problem.costs.micro_batch};
  int device = 0;
  for (const PiperStage& stage : result.stages) {
    PlanStage& out = plan.stages.emplace_back(PlanStage{.layers = stage.layers, .tensor = stage.tensor});
    out.recompute = stage.recompute;
    for (int d = 0; d < stage.data * stage.tensor; ++d) out.devices.emplace_back(device++);
    for (const int variant : stage.variants)
      if (variant >= 0) {
        out.variants = stage.variants;
        break;
      }
  }
  plan.search = {.objective = result.seconds,
                 .objective_name = "slowest stage's seconds per micro-batch",
                 .states = result.states,
                 .complete = result.complete};
  return {plan};
}

extern const System piper;
const System piper = {
    .name = "piper",
    .aliases = {},
    .title = "Piper",
    .citation =
        "Tarnawski, Narayanan, Phanishayee, Piper: Multidimensional Planner for DNN "
        "Parallelization, NeurIPS 2021 (a system of 2026 with the same name is another one)",
    .written_from = {WrittenFrom::code,
                     {{"knapsack=exact", WrittenFrom::ours},
                      {"recomputation without published variants", WrittenFrom::ours}},
                     "knapsack=exact, and recomputation for layers without published variants, are ours."},
    .synchronous = true,
    .one_size_only = "its planner's objective is for micro-batches of one size",
    .options = {{"knapsack",
                 "greedy",
                 "choice of variants where memory is short: greedy (the authors') or exact",
                 {"greedy", "exact"}},
                {"data_parallel", "yes", "may replicate stages", kYesNo},
                {"tensor_parallel", "yes", "stages may use tensor parallelism", kYesNo},
                training_only({"recompute", "yes", "stages may recompute their activations", kYesNo}),
                rank_option(),
                search_seconds_option()},
    .own_cuts = [](const Options&) { return true; },
    .candidates = piper_plan,
    .schedule =
        [](const ScheduleProblem& problem, const Options&) {
          return replicated_one_f_one_b(problem, round_robin_in_flight(problem.placement), "piper");
        },
    .weights =
        [](const ScheduleProblem& problem, const Options&) {
          return WeightRule{.recompute = problem.recompute.empty() ? WeightRule::Recompute::none
                                                                   : WeightRule::Recompute::forward_weights,
                            .recomputing = problem.recompute};
        },
    .theory = [](const ScheduleProblem& problem,
                 const Options&) { return flushed_chain_theory(problem, round_robin_in_flight(problem.placement)); },
    .replicates = [](const Options& options) { return options.flag("data_parallel"); },
};

}  // namespace sluice
