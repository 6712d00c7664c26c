// SpecTrain (Chen, Yang, Cheng, Efficient and Robust Parallel DNN Training through Model Parallelism on Multi-GPU
// Platform, arXiv 1809.02839): PipeDream's order without a stash; each pass of a batch runs on weights predicted for
// the moment its round trip ends on stage 0. On stage k of p:
//
//   forward   W - s_F lr v,  s_F = p - 1 - k + floor(k / 2)
//   backward  W - s_B lr v,  s_B = floor(k / 2)            (input gradient only)
//
//   p = 4:  s_F = 3 2 2 1,  s_B = 0 0 1 1
//
// v is the smoothed gradient of momentum SGD. For other optimizers no published rule is known; by default what they
// subtract per unit of learning rate stands in for v, and strict=yes rejects them.
//
// variant=reuse: as the authors' README describes version 2: s = p - 1 - k, and the backward reuses the forward's
//   predicted tensor. (Their code does something else.)
// delta=smoothed: v is the moving average of the gradients under every optimizer that keeps one, Adam's m. It is not
//   divided by sqrt(s), so that the prediction is far smaller than Adam's steps: the rule taken at its word.
// delta=code: as the released PyTorch code predicts: forward mu v + last gradient (counted twice), backward mu v.
#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/plan/one_f_one_b_without_flush.h"

namespace sluice {

enum class Direction { paper, code, smoothed };
enum class Variant { paper, reuse };

static const ChoiceOption<Variant> variant_option(
    "variant", "paper: predict in both passes; reuse: the backward reuses the forward's tensor",
    {{"paper", Variant::paper}, {"reuse", Variant::reuse}});

static const ChoiceOption<Direction> delta_option(
    "delta",
    "direction of prediction: paper (v; of other optimizers their own direction), code (the released code's forms), or "
    "smoothed (the smoothed gradient of other optimizers too)",
    {{"paper", Direction::paper}, {"code", Direction::code}, {"smoothed", Direction::smoothed}});

static WeightRule spectrain_weights(const ScheduleProblem& problem, const Options& options) {
  const bool reuse = variant_option(options) == Variant::reuse;
  const int p = problem.stages();
  // Updates between the end of the batch's backward on stage k and the end of its round trip.
  const auto after_backward = [&](int k) { return reuse ? 0 : k / 2; };
  WeightRule rule{.update = WeightRule::Update::every_backward};
  rule.backward = reuse ? WeightRule::Backward::same_as_forward : WeightRule::Backward::newest;
  rule.forward_horizon = list_of(p, [&](int k) { return p - 1 - k + after_backward(k); });
  if (!reuse) rule.backward_horizon = list_of(p, after_backward);
  if (options.flag("clip_s")) rule.clip_to_lag = list_of(p, [&](int k) { return p - 1 - k; });
  const Direction direction = delta_option(options);
  if (direction == Direction::code) {
    rule.forward_delta = WeightRule::Delta::state_plus_gradient;
    rule.backward_delta = WeightRule::Delta::momentum_only;
  }
  if (direction == Direction::smoothed) rule.forward_delta = rule.backward_delta = WeightRule::Delta::first_moment;
  rule.momentum_sgd_only = options.flag("strict");
  return rule;
}

static Theory spectrain_theory(const ScheduleProblem& problem, const Options& options) {
  return theory_with_predictions(problem, spectrain_weights(problem, options));
}

extern const System spectrain = {
    .name = "spectrain",
    .title = "SpecTrain",
    .citation =
        "Chen, Yang, Cheng, Efficient and Robust Parallel DNN Training through Model Parallelism on Multi-GPU "
        "Platform, 2018 (arXiv 1809.02839)",
    .written_from = {WrittenFrom::code,
                     {{"smoothed gradient", WrittenFrom::memory},
                      {"other optimizers", WrittenFrom::ours},
                      {"clip_s", WrittenFrom::ours}},
                     "For optimizers other than SGD with momentum, what they subtract stands in for the smoothed "
                     "gradient; clip_s is ours."},
    .synchronous = false,
    .options = {training_only(variant_option.spec()), training_only(delta_option.spec()),
                training_only({"clip_s", "no", "shorten s while the pipe fills (published: no)", kYesNo}),
                training_only({"strict", "no",
                               "reject optimizers other than SGD with momentum, for which no published rule is known",
                               kYesNo})},
    .schedule = one_f_one_b_without_flush,
    .weights = spectrain_weights,
    .theory = spectrain_theory,
};

}  // namespace sluice
