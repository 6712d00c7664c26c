// PipeOptim (Guan et al., PipeOptim: Ensuring Effective 1F1B Schedule with Optimizer-Dependent
// Weight Prediction, arXiv 2312.00839): PipeDream's order without a stash. The forward runs on
// weights predicted for the update the batch itself will make, the backward on the newest:
//
//   forward   W - s lr Delta,  s = p - 1 - k on stage k (from 0)
//   backward  W
//
// Delta is the optimizer's own direction after its last update: the momentum buffer for SGD,
// mhat / (sqrt(vhat) + eps) for Adam and AdamW, and so on (the table is in specs/async_systems.md,
// section 4). So the last stage predicts nothing, and no stage holds more than one tensor besides
// its weights.
//
// s=code: one update more on every stage, as the released code has it (the paper and its figure say
//   p - 1 - k; which made the published tables is not known).
// delta=code: with momentum, mu v + last gradient, which v already contains.
// decay_in_delta=yes: AdamW's decoupled weight decay is predicted as well.
// recompute=predicted: the backward runs the forward again on the tensor the forward read, which is
//   kept for it. recompute=newest: on the weights the backward reads anyway; nothing is kept.
#include <algorithm>

#include "harness/plan/chain_partition.h"
#include "harness/plan/one_f_one_b_without_flush.h"

namespace sluice {

static WeightRule pipeoptim_weights(const ScheduleProblem& problem, const Options& options) {
  WeightRule rule{.update = WeightRule::Update::every_backward, .backward = WeightRule::Backward::newest};
  const int p = static_cast<int>(problem.graph.size());
  const int extra = options.text("s") == "code" ? 1 : 0;
  for (int k = 0; k < p; ++k) {
    rule.forward_horizon.push_back(p - 1 - k + extra);
    if (options.flag("clip_s")) rule.clip_to_lag.push_back(p - 1 - k);
  }
  if (options.text("delta") == "code") rule.forward_delta = WeightRule::Delta::state_plus_gradient;
  rule.decay_in_delta = options.flag("decay_in_delta");
  const std::string& recompute = options.text("recompute");
  if (recompute == "predicted") rule.recompute = WeightRule::Recompute::forward_weights;
  if (recompute == "newest") rule.recompute = WeightRule::Recompute::newest;
  return rule;
}

static Theory pipeoptim_theory(const ScheduleProblem& problem, const Options& options) {
  Theory theory = theory_of_one_f_one_b_without_flush(problem, 1);
  const int p = problem.ranks;
  const int extra = options.text("s") == "code" ? 1 : 0;
  const bool kept = options.text("recompute") == "predicted";
  for (int k = 0; k < p && !theory.in_flight.empty(); ++k) {
    const int lag = p - 1 - k;
    // A clipped first batch predicts nothing.
    const int predicted = problem.microbatches - (options.flag("clip_s") && extra == 0 ? 1 : 0);
    const int live = lag + extra == 0 ? 0 : std::min(predicted, kept ? lag + 1 : 1);
    theory.weight_versions.push_back(1 + live);
  }
  return theory;
}

extern const System pipeoptim;
const System pipeoptim = {
    .name = "pipeoptim",
    .aliases = {},
    .title = "PipeOptim",
    .citation =
        "Guan et al., PipeOptim: Ensuring Effective 1F1B Schedule with Optimizer-Dependent "
        "Weight Prediction, 2023 (arXiv 2312.00839)",
    .synchronous = false,
    .options = {{"s",
                 "paper",
                 "updates to look ahead on stage k: paper (p-1-k) or code (p-k, as released)",
                 {"paper", "code"}},
                {"delta",
                 "paper",
                 "direction of prediction: paper, or code (the last gradient counted twice)",
                 {"paper", "code"}},
                {"clip_s", "no", "shorten s while the pipe fills (published: no)", kYesNo},
                {"decay_in_delta", "no", "predict AdamW's decoupled weight decay as well (published: no)", kYesNo},
                {"recompute",
                 "off",
                 "activations of the backward: off (kept), predicted or newest (recomputed with "
                 "these weights)",
                 {"off", "predicted", "newest"}}},
    .plan = [](const Problem& p, const Options&) { return balanced_chain(p, p.devices, "pipeoptim"); },
    .schedule = [](const ScheduleProblem& p, const Options&) { return one_f_one_b_without_flush(p); },
    .weights = pipeoptim_weights,
    .theory = pipeoptim_theory,
};

}  // namespace sluice
