// SpecTrain (Chen, Yang, Cheng, Efficient and Robust Parallel DNN Training through Model
// Parallelism on Multi-GPU Platform, arXiv 1809.02839): PipeDream's order without a stash; each
// pass of a batch runs on weights predicted for the moment its round trip ends on stage 0. On stage
// k of p:
//
//   forward   W - s_F lr v,  s_F = p - 1 - k + floor(k / 2)
//   backward  W - s_B lr v,  s_B = floor(k / 2)            (input gradient only)
//
//   p = 4:  s_F = 3 2 2 1,  s_B = 0 0 1 1
//
// v is the smoothed gradient of momentum SGD. For other optimizers the paper has no rule; by
// default what they subtract per unit of learning rate stands in for v, and strict=yes refuses
// them.
//
// variant=reuse: as the authors' README describes version 2: s = p - 1 - k, and the backward reuses
//   the forward's predicted tensor. (Its code does something else, see specs.)
// delta=code: as the released PyTorch code predicts: forward mu v + last gradient (counted twice),
//   backward mu v.
#include <algorithm>

#include "harness/plan/chain_partition.h"
#include "harness/plan/one_f_one_b_without_flush.h"

namespace sluice {

static WeightRule spectrain_weights(const ScheduleProblem& problem, const Options& options) {
  const bool reuse = options.text("variant") == "reuse";
  WeightRule rule{.update = WeightRule::Update::every_backward};
  const int p = static_cast<int>(problem.graph.size());
  for (int k = 0; k < p; ++k) {
    const int lag = p - 1 - k, beyond = reuse ? 0 : k / 2;
    rule.forward_horizon.push_back(lag + beyond);
    if (!reuse) rule.backward_horizon.push_back(beyond);
    if (options.flag("clip_s")) rule.clip_to_lag.push_back(lag);
  }
  rule.backward = reuse ? WeightRule::Backward::same_as_forward : WeightRule::Backward::newest;
  if (options.text("delta") == "code") {
    rule.forward_delta = WeightRule::Delta::state_plus_gradient;
    rule.backward_delta = WeightRule::Delta::momentum_only;
  }
  rule.momentum_sgd_only = options.flag("strict");
  return rule;
}

static Theory spectrain_theory(const ScheduleProblem& problem, const Options& options) {
  Theory theory = theory_of_one_f_one_b_without_flush(problem, 1);
  const bool reuse = options.text("variant") == "reuse";
  const int p = problem.ranks;
  for (int k = 0; k < p && !theory.in_flight.empty(); ++k) {
    const int lag = p - 1 - k, beyond = reuse ? 0 : k / 2;
    // A clipped first batch looks no further ahead than `beyond`.
    const int predicted = problem.microbatches - (options.flag("clip_s") && beyond == 0 ? 1 : 0);
    // One prediction at a time; reused ones live from forward to backward.
    const int live = lag + beyond == 0 ? 0 : std::min(predicted, reuse ? lag + 1 : 1);
    theory.weight_versions.push_back(1 + live);
  }
  return theory;
}

extern const System spectrain;
const System spectrain = {
    .name = "spectrain",
    .aliases = {},
    .title = "SpecTrain",
    .citation =
        "Chen, Yang, Cheng, Efficient and Robust Parallel DNN Training through Model "
        "Parallelism on Multi-GPU Platform, 2018 (arXiv 1809.02839)",
    .synchronous = false,
    .options = {{"variant",
                 "paper",
                 "paper: predict in both passes; reuse: the backward reuses the forward's tensor",
                 {"paper", "reuse"}},
                {"delta",
                 "paper",
                 "direction of prediction: paper (v) or code (the released code's forms)",
                 {"paper", "code"}},
                {"clip_s", "no", "shorten s while the pipe fills (published: no)", kYesNo},
                {"strict", "no", "refuse optimizers other than SGD with momentum, for which the paper has no rule",
                 kYesNo}},
    .plan = [](const Problem& p, const Options&) { return balanced_chain(p, p.devices, "spectrain"); },
    .schedule = [](const ScheduleProblem& p, const Options&) { return one_f_one_b_without_flush(p); },
    .weights = spectrain_weights,
    .theory = spectrain_theory,
};

}  // namespace sluice
