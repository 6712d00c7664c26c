// PipeMare (Yang et al., PipeMare: Asynchronous Pipeline Parallel DNN Training, MLSys 2021, arXiv 1910.05124): no stash
// and no flush; the damage of stale forwards is limited by three techniques. With tau_k, the delay of stage k in
// updates:
//
//   T1  learning rate of stage k: lr / tau_k^p,  p = 1 - min(update / anneal, 1)
//   T2  backward on W - tau_k d, towards what the forward read; d is a moving average of
//       W_new - W_old with decay D^(1 / tau_k)
//   T3  the first epochs synchronous: one batch in the pipe at a time, p = 3:
//
//       rank 0  F0             B0 F1             B1
//       rank 1     F0       B0       F1       B1
//       rank 2        F0 B0             F1 B1
//
// The paper's pipeline, as remembered, is finer (tau = (2 (P - i) + 1) / N); here tau is the true lag of 1F1B,
// max(1, p - 1 - k), and T2 does nothing on the last stage. Formulas from memory of the paper, D = e^-2 included.
#include <algorithm>

#include "harness/base/index.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/one_f_one_b_without_flush.h"

namespace sluice {

static bool is_synchronous(const ScheduleProblem& problem, const Options& options) {
  return problem.epoch < options.integer("synchronous_epochs");
}

static Schedule pipemare_schedule(const ScheduleProblem& problem, const Options& options) {
  return is_synchronous(problem, options) ? orders::one_micro_batch_at_a_time(problem)
                                          : one_f_one_b_without_flush(problem);
}

static WeightRule pipemare_weights(const ScheduleProblem& problem, const Options& options) {
  WeightRule rule{.update = WeightRule::Update::every_backward, .backward = WeightRule::Backward::newest};
  if (is_synchronous(problem, options)) return rule;
  const int p = problem.stages();
  rule.pipemare.delay = list_of(p, [&](int k) -> double { return std::max(1, p - 1 - k); });
  rule.pipemare.anneal_updates = options.integer("anneal");
  if (options.flag("t2")) rule.backward_horizon = list_of(p, [&](int k) { return -(p - 1 - k); });
  rule.backward_delta = WeightRule::Delta::weight_moving_average;
  return rule;
}

static Theory pipemare_theory(const ScheduleProblem& problem, const Options& options) {
  if (is_synchronous(problem, options)) return {};
  Theory theory = theory_of_one_f_one_b_without_flush(problem, 1);
  const int p = count_of(theory.in_flight);
  theory.weight_versions = list_of(p, [&](int k) { return options.flag("t2") && k < p - 1 ? 2 : 1; });
  return theory;
}

extern const System pipemare = {
    .name = "pipemare",
    .title = "PipeMare",
    .citation = "Yang et al., PipeMare: Asynchronous Pipeline Parallel DNN Training, MLSys 2021 (arXiv 1910.05124)",
    .written_from = {WrittenFrom::memory,
                     {{"delay of a stage", WrittenFrom::ours}},
                     "The delay of a stage is its lag in 1F1B; the paper, as remembered, has a finer pipeline."},
    .synchronous = false,
    .options = {{.name = "anneal",
                 .default_value = "200",
                 .help = "T1: updates until all stages have the same learning rate; 0 switches it off",
                 .minimum = 0,
                 .training_only = true},
                training_only({"t2", "yes", "T2: correct the backward's weights", kYesNo}),
                {.name = "synchronous_epochs",
                 .default_value = "0",
                 .help = "T3: epochs at the start without overlap",
                 .minimum = 0,
                 .training_only = true}},
    .schedule = pipemare_schedule,
    .weights = pipemare_weights,
    .theory = pipemare_theory,
};

}  // namespace sluice
