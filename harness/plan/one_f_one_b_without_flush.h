// The order that the asynchronous 1F1B systems share (PipeDream, SOSP 2019, sections 3.2 and 3.3): one forward, one
// backward, again and again, without a flush; filled once and drained at the end. p = 3 stages, 5 batches:
//
//   rank 0  F0 F1 F2       B0 F3 B1 F4 B2    B3    B4
//   rank 1     F0 F1    B0 F2 B1 F3 B2 F4 B3    B4
//   rank 2        F0 B0 F1 B1 F2 B2 F3 B3 F4 B4
#pragma once

#include "harness/pipeline/system.h"

namespace sluice {

// System::schedule. For a chain of stages; with replicas as harness/plan/replicated_schedule.h draws. The options
// change nothing.
Schedule one_f_one_b_without_flush(const ScheduleProblem& problem, const Options& options = {});

// What holds for every system with this order: the bubble of one filled and drained run, in-flight activations, and the
// updates (of `per_update` micro-batches) between a batch's forward and its own update. Empty where a stage is
// replicated. Weight versions are the system's own affair.
Theory theory_of_one_f_one_b_without_flush(const ScheduleProblem& problem, int per_update);

// The same of a rule that updates after every backward, whose forwards read predicted weights and that stashes none,
// with the weight versions: the newest and the predictions that are alive. One at a time, unless the backward reads it
// again.
Theory theory_with_predictions(const ScheduleProblem& problem, const WeightRule& rule);

}  // namespace sluice
