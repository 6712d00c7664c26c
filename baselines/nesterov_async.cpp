// Nesterov's method for asynchronous pipelines (Ajanthan et al., Nesterov Method for Asynchronous Pipeline Parallel
// Optimization, ICML 2025, arXiv 2505.01099): PipeDream's order and weight stash, and a large momentum whose look-ahead
// makes up for the gradients' delay, so that forwards predict nothing. As released (PluralisResearch/AsyncPP) the
// optimizer is NAdam with decoupled weight decay and beta1 = 0.99:
//
//   "optimizer": {"kind": "nadamw", "beta1": 0.99, "learning_rate": 3e-4}
//
// With d = p - 1 - k, the updates between a batch's forward on stage k and its own update:
//
//   weights=stash   the backward reads the tensor that the forward read: p - k versions on stage k
//   weights=newest  no stash: both read the newest, and the stage's rate and momentum make up for it; recompute=yes
//                   runs the forward again on the newest weights before the backward, as the released program must
//   stage_beta1     beta1 of stage k: b + (p - 1 - k) (0.99 - b) / p, where b is the optimizer's
//   rate_updates    stage k's rate is lr / d^(1 - min((1 + i) / rate_updates, 1)) in update i
//
// The released form was read in code, the abstract on the page; the stash-free form (weights=newest) is from memory.
// The order is drawn in harness/plan/one_f_one_b_without_flush.h.
#include <algorithm>

#include "harness/base/index.h"
#include "harness/plan/one_f_one_b_without_flush.h"

namespace sluice {

static WeightRule nesterov_async_weights(const ScheduleProblem& problem, const Options& options) {
  WeightRule rule{.update = WeightRule::Update::every_backward, .nesterov_adam_only = options.flag("strict")};
  if (options.text("weights") == "newest") {
    rule.backward = WeightRule::Backward::newest;
    if (options.flag("recompute")) rule.recompute = WeightRule::Recompute::newest;
  } else if (options.flag("recompute")) {
    rule.recompute = WeightRule::Recompute::forward_weights;
  }
  const int p = problem.stages();
  rule.corrections.discount_updates = options.integer("rate_updates");
  if (rule.corrections.discount_updates > 0) rule.corrections.delay = list_of(p, [&](int k) { return p - 1 - k; });
  if (options.flag("stage_beta1"))
    rule.corrections.beta1_rise = list_of(p, [&](int k) { return static_cast<double>(p - 1 - k) / p; });
  return rule;
}

static Theory nesterov_async_theory(const ScheduleProblem& problem, const Options& options) {
  Theory theory = theory_of_one_f_one_b_without_flush(problem, 1);
  const int p = count_of(theory.in_flight), n = problem.microbatches;
  theory.weight_versions = list_of(p, [&](int k) {
    const int warm_up = std::min(n, p - k);
    return options.text("weights") == "newest" ? 1 : std::min(warm_up, n - warm_up + 2);
  });
  return theory;
}

extern const System nesterov_async = {
    .name = "nesterov_async",
    .aliases = {"asyncpp"},
    .title = "Nesterov asynchronous",
    .citation =
        "Ajanthan et al., Nesterov Method for Asynchronous Pipeline Parallel Optimization, ICML 2025 "
        "(arXiv 2505.01099)",
    .written_from = {WrittenFrom::code, {{"weights=newest", WrittenFrom::memory}}},
    .synchronous = false,
    .options = {training_only({"weights",
                               "stash",
                               "weights that backwards read: stash (the forward's) or newest",
                               {"stash", "newest"}}),
                training_only({"recompute", "no", "run the forward again before the backward", kYesNo}),
                training_only({"stage_beta1", "no",
                               "beta1 rises from the optimizer's on the last stage towards 0.99 on the first", kYesNo}),
                {.name = "rate_updates",
                 .default_value = "0",
                 .help = "updates until all stages have the same learning rate; 0: from the start",
                 .minimum = 0,
                 .training_only = true},
                training_only({"strict", "no", "reject optimizers other than nadam and nadamw", kYesNo})},
    .schedule = [](const ScheduleProblem& p, const Options&) { return one_f_one_b_without_flush(p); },
    .weights = nesterov_async_weights,
    .theory = nesterov_async_theory,
};

}  // namespace sluice
