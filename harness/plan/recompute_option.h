// The option `recompute` of systems with a flush: activations are recomputed before the backward instead of being kept
// (Chen et al., 2016, arXiv 1604.06174; GPipe, section 2.3). The forward then keeps its stage's input only. A
// recomputation needs nothing from other ranks, so a rank may run it before the gradient arrives.
#pragma once

#include <optional>

#include "harness/pipeline/system.h"

namespace sluice {

enum class Recomputation { no, needed, all };

OptionSpec recompute_option();
Recomputation recomputation(const Options& options);

// System::weights of systems with a flush and this option.
WeightRule flush_with_recompute(const ScheduleProblem& problem, const Options& options);

// fill_drain_bubble() with the option. all, at B = 2 F and if the `forwards` of a rank never wait in between: the
// makespan is (forwards + p - 1)(F + B) + forwards * F, each recomputation costing at most its own time. needed: none.
std::optional<double> fill_drain_bubble(int ranks, int forwards, Recomputation recomputation);

}  // namespace sluice
