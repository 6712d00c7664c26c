// The option `recompute` of systems with a flush: activations are made again before the backward instead of being kept
// (Chen et al., 2016, arXiv 1604.06174; GPipe, section 2.3). The forward then keeps its stage's input only. A
// recomputation waits for nothing from other ranks, so a rank may do it while the gradient is still on its way.
#pragma once

#include <optional>

#include "harness/pipeline/system.h"

namespace sluice {

enum class Recomputation { no, needed, all };

OptionSpec recompute_option();
Recomputation recomputation(const Options& options);

// System::weights of systems with a flush and this option.
WeightRule flush_with_recompute(const ScheduleProblem& problem, const Options& options);

// fill_drain_bubble() with the option. all, at B = 2 F and where the `forwards` of a rank wait for nothing in between:
// the makespan is (forwards + p - 1)(F + B) + forwards * F, each recomputation costing itself at most. needed: none.
std::optional<double> fill_drain_bubble(int ranks, int forwards, Recomputation recomputation);

}  // namespace sluice
