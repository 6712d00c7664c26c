// PipeDream-2BW (Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021,
// arXiv 2006.09503): 1F1B without a flush where m micro-batches make one update and two weight
// versions are enough. Update b (from 0) runs forward and backward on version max(b - 1, 0) on
// every stage:
//
//   W(t+1) = W(t) - lr * gradient of f at W(t-1)
//
// p = 3, m = 3: which version rank 0's forwards read, and its steps
//
//   micro-batch   0 1 2 | 3 4 5 | 6 7 8 | 9 ...
//   version       0 0 0 | 0 0 0 | 1 1 1 | 2 ...
//
// The version a batch needs is the newest or the one before exactly when m >= p - 1 (the paper asks
// m >= p); fewer are rejected. A drained and refilled pipe starts with both buffers the same, so the
// first two updates after it have delay 0 and 1.
//
// recompute=yes: a stage keeps its inputs and runs the forward again before the backward, on the
// batch's own version; auto: where the planner finds that memory asks for it.
//
// error_feedback (Zmushko et al., 2026, arXiv 2606.30634, its update-level form): where u is what the optimizer
// subtracts at an update and v what it subtracted the update before, the weights change by -(2 u - v), which makes up
// for the gradient that is one update old. double_first has v = 0 at the first update, plain_first v = u.
//
// planner=paper (section 3.3, from memory; two_bw_plan.h): `width` replicas of a pipeline `depth`
// deep, whichever gives the most samples per second in memory; a stage's replicas take the
// micro-batches in turn and add their gradients up, so m is the share of each. planner=balanced: as
// many stages as devices, cut by compute.
// micro_batch=best: the planner may also take larger micro-batches, powers of two times the run's.
#include <algorithm>

#include "baselines/pipedream_2bw/two_bw_plan.h"
#include "harness/base/error.h"
#include "harness/plan/chain_partition.h"
#include "harness/plan/one_f_one_b_without_flush.h"
#include "harness/plan/planner_options.h"

namespace sluice {

static std::vector<PlannedPipeline> two_buffered_plan(const Problem& problem, const Options& options) {
  if (options.text("planner") == "balanced") return {balanced_chain(problem, problem.devices, "pipedream_2bw")};
  const std::string& recompute = options.text("recompute");
  TwoBwOptions search{.devices = problem.devices,
                      .batch = problem.costs.micro_batch * problem.microbatches,
                      .may_recompute = recompute != "no",
                      .must_recompute = recompute == "yes",
                      .costs_at = problem.costs_at,
                      .max_width = problem.max_replicas,
                      .limits = {.seconds = problem.search_seconds}};
  if (options.text("memory") == "accounted") search.footprint = problem.footprint;
  if (options.text("micro_batch") == "best")
    for (std::int64_t b = problem.costs.micro_batch; search.batch % b == 0; b *= 2) search.micro_batches.push_back(b);
  std::vector<PlannedPipeline> plans;
  for (TwoBwPlan& found : two_bw_plans(problem.costs, problem.cluster, search)) {
    for (PlanStage& stage : found.plan.stages) stage.recompute = found.recompute;
    plans.emplace_back(std::move(found.plan));
  }
  if (plans.empty())
    throw InputError("pipedream_2bw",
                     "no width and depth on " + std::to_string(problem.devices) +
                         " devices fit their memory with as many micro-batches as stages",
                     "use more micro-batches, or recompute=auto");
  return plans;
}

// Micro-batches that each of a stage's replicas adds up for an update.
static int share_of_a_replica(const ScheduleProblem& problem) {
  std::size_t width = 1;
  for (const auto& replicas : problem.placement.stages) width = std::max(width, replicas.size());
  const int m = problem.microbatches_per_update, replicas = static_cast<int>(width);
  if (m % replicas != 0)
    throw InputError(
        "microbatches",
        std::to_string(m) + " per update cannot be shared by " + std::to_string(replicas) + " copies of the pipeline",
        "give a multiple");
  return m / replicas;
}

static Schedule two_buffered_schedule(const ScheduleProblem& problem, const Options&) {
  const int stages = static_cast<int>(problem.graph.size()), m = share_of_a_replica(problem);
  if (m < stages - 1)
    throw InputError("microbatches",
                     std::to_string(m) + " per update are too few for " + std::to_string(stages) +
                         " stages: a batch would need a weight version that does not exist yet",
                     "give at least " + std::to_string(stages - 1));
  return one_f_one_b_without_flush(problem);
}

static WeightRule two_buffered_weights(const ScheduleProblem& problem, const Options& options) {
  const bool recompute = options.text("recompute") == "auto" ? !problem.recompute.empty() : options.flag("recompute");
  using Feedback = WeightRule::ErrorFeedback;
  const std::string& feedback = options.text("error_feedback");
  return {.update = WeightRule::Update::every_backward,
          .forward = WeightRule::Forward::previous,
          .accumulate = share_of_a_replica(problem),
          .recompute = recompute ? WeightRule::Recompute::forward_weights : WeightRule::Recompute::none,
          .error_feedback = feedback == "double_first"  ? Feedback::double_first
                            : feedback == "plain_first" ? Feedback::plain_first
                                                        : Feedback::none,
          .decay_in_feedback = options.text("feedback_decay") == "inside"};
}

static Theory two_buffered_theory(const ScheduleProblem& problem, const Options&) {
  const int m = problem.microbatches_per_update, updates = problem.microbatches / m;
  Theory theory = theory_of_one_f_one_b_without_flush(problem, m);
  for (int& updates_late : theory.staleness) updates_late = std::min(1, updates - 1);
  theory.weight_versions.assign(theory.in_flight.size(), std::min(2, updates));
  return theory;
}

static OptionSpec of_paper(OptionSpec spec) { return only_with(std::move(spec), "planner", {"paper"}); }

extern const System pipedream_2bw;
const System pipedream_2bw = {
    .name = "pipedream_2bw",
    .aliases = {"2bw"},
    .title = "PipeDream-2BW",
    .citation =
        "Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021 "
        "(arXiv 2006.09503)",
    .written_from = {WrittenFrom::code,
                     {{"planner=paper", WrittenFrom::memory},
                      {"error_feedback", WrittenFrom::abstract},
                      {"planner=balanced", WrittenFrom::ours},
                      {"min-max cut of planner=paper", WrittenFrom::ours}},
                     "planner=balanced is ours, and so is the min-max cut of unequal layers in planner=paper."},
    .synchronous = false,
    .accumulates = true,
    .options =
        {training_only({"recompute",
                        "no",
                        "run the forward again before the backward; auto: where planner=paper finds that memory "
                        "asks for it",
                        {"yes", "no", "auto"}}),
         {"planner",
          "balanced",
          "how stages are cut: balanced (by compute, one device each) or paper (section 3.3, from memory: replicas of "
          "equal pipelines)",
          {"balanced", "paper"}},
         of_paper(
             {"micro_batch", "case", "the run's micro-batch, or the best power of two times it", {"case", "best"}}),
         of_paper({"memory",
                   "paper",
                   "what must fit: paper (its estimate, as remembered: two weight versions and activations) or "
                   "accounted (gradients and the optimizer's state too)",
                   {"paper", "accounted"}}),
         of_paper(rank_option(/*newer=*/true)),
         of_paper(search_seconds_option()),
         {.name = "error_feedback",
          .default_value = "no",
          .help =
              "error feedback: an update u changes the weights by -(2 u - v), v being the update before; at the first, "
              "double_first: v = 0, plain_first: v = u",
          .choices = {"no", "double_first", "plain_first"},
          .in_digest_unless_default = true,
          .training_only = true},
         {.name = "feedback_decay",
          .default_value = "inside",
          .help = "decoupled weight decay: inside (part of u and v) or outside (applied once, without feedback)",
          .choices = {"inside", "outside"},
          .in_digest_unless_default = true,
          .only_with = {{"error_feedback", {"no"}, /*except=*/true}},
          .training_only = true}},
    .candidates = two_buffered_plan,
    .schedule = two_buffered_schedule,
    .weights = two_buffered_weights,
    .theory = two_buffered_theory,
    .replicates = [](const Options& options) { return options.text("planner") == "paper"; },
};

}  // namespace sluice
