// The option `recompute` of systems with a flush: activations are made again before the backward
// instead of being kept (Chen et al., 2016, arXiv 1604.06174; GPipe, section 2.3). The forward then
// keeps its stage's input only. A recomputation waits for nothing from other ranks, so a rank may
// do it while the gradient is still on its way, as in GPipe's section 2.3.
#pragma once

#include "harness/base/options.h"
#include "harness/pipeline/weight_rule.h"

namespace sluice {

inline OptionSpec recompute_option() {
  return {"recompute",
          "no",
          "run the forward again before the backward: no, all, or needed (not where the backward "
          "follows its forward at once, so that nothing has to be dropped)",
          {"no", "needed", "all"}};
}

inline bool recomputes(const Options& options) { return options.text("recompute") != "no"; }

inline WeightRule flush_with_recompute(const Options& options) {
  return {.recompute = recomputes(options) ? WeightRule::Recompute::forward_weights : WeightRule::Recompute::none,
          .keep_if_next = options.text("recompute") == "needed"};
}

// Bubble ratio with recompute=all at B = 2 F where all of `forwards` (of a rank) wait for nothing in
// between: the makespan is (forwards + p - 1)(F + B) + forwards * F, a recomputation never costing
// more than itself.
inline double recomputed_bubble_ratio(int ranks, int forwards) {
  return 3.0 * (ranks - 1) / (4.0 * forwards + 3.0 * (ranks - 1));
}

}  // namespace sluice
