// PipeOptim (Guan et al., PipeOptim: Ensuring Effective 1F1B Schedule with Optimizer-Dependent Weight Prediction, arXiv
// 2312.00839): PipeDream's order without a stash. The forward runs on weights predicted for the update the batch itself
// will make, the backward on the newest:
//
//   forward   W - s lr Delta,  s = p - 1 - k on stage k (from 0)
//   backward  W
//
// Delta is the optimizer's own direction after its last update: the momentum buffer for SGD, mhat / (sqrt(vhat) + eps)
// for Adam and AdamW, and so on. So the last stage predicts nothing, and no stage holds more than one tensor besides
// its weights. p = 3:
//
//   rank 0  F0 F1 F2       B0 F3 B1 F4 B2    B3    B4     s = 2
//   rank 1     F0 F1    B0 F2 B1 F3 B2 F4 B3    B4        s = 1
//   rank 2        F0 B0 F1 B1 F2 B2 F3 B3 F4 B4           s = 0
//
// s=code: one update more on every stage, as the released code has it (the paper and its figure say p - 1 - k; which
//   made the published tables is not known).
// delta=code: with momentum, mu v + last gradient, which v already contains.
// decay_in_delta=yes: AdamW's decoupled weight decay is predicted as well.
// recompute=predicted: the backward runs the forward again on the tensor the forward read, which is kept for it.
//   recompute=newest: on the weights the backward reads anyway; nothing is kept.
#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/plan/one_f_one_b_without_flush.h"

namespace sluice {

// Updates by which a horizon is longer than the lag p - 1 - k.
static const ChoiceOption<int> s_option("s",
                                        "updates to look ahead on stage k: paper (p-1-k) or code (p-k, as released)",
                                        {{"paper", 0}, {"code", 1}});

static const ChoiceOption<WeightRule::Delta> delta_option(
    "delta", "direction of prediction: paper, or code (the last gradient counted twice)",
    {{"paper", WeightRule::Delta::state}, {"code", WeightRule::Delta::state_plus_gradient}});

static const ChoiceOption<WeightRule::Recompute> recompute_with_option(
    "recompute", "activations of the backward: off (kept), predicted or newest (recomputed with these weights)",
    {{"off", WeightRule::Recompute::none},
     {"predicted", WeightRule::Recompute::forward_weights},
     {"newest", WeightRule::Recompute::newest}});

static WeightRule pipeoptim_weights(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.stages(), extra = s_option(options);
  WeightRule rule{.update = WeightRule::Update::every_backward, .backward = WeightRule::Backward::newest};
  rule.recompute = recompute_with_option(options);
  rule.forward_horizon = list_of(p, [&](int k) { return p - 1 - k + extra; });
  rule.forward_delta = delta_option(options);
  if (options.flag("clip_s")) rule.clip_to_lag = list_of(p, [&](int k) { return p - 1 - k; });
  rule.decay_in_delta = options.flag("decay_in_delta");
  return rule;
}

static Theory pipeoptim_theory(const ScheduleProblem& problem, const Options& options) {
  return theory_with_predictions(problem, pipeoptim_weights(problem, options));
}

extern const System pipeoptim = {
    .name = "pipeoptim",
    .title = "PipeOptim",
    .citation =
        "Guan et al., PipeOptim: Ensuring Effective 1F1B Schedule with Optimizer-Dependent Weight Prediction, 2023 "
        "(arXiv 2312.00839)",
    .written_from =
        {WrittenFrom::code,
         {{"other optimizers", WrittenFrom::ours},
          {"clip_s", WrittenFrom::ours},
          {"decay_in_delta", WrittenFrom::ours}},
         "The direction of optimizers that the released code does not name, clip_s and decay_in_delta are ours."},
    .synchronous = false,
    .options = {training_only(s_option.spec()), training_only(delta_option.spec()),
                training_only({"clip_s", "no", "shorten s while the pipe fills (published: no)", kYesNo}),
                training_only(
                    {"decay_in_delta", "no", "predict AdamW's decoupled weight decay as well (published: no)", kYesNo}),
                training_only(recompute_with_option.spec())},
    .schedule = one_f_one_b_without_flush,
    .weights = pipeoptim_weights,
    .theory = pipeoptim_theory,
};

}  // namespace sluice
