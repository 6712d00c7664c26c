// The order of the asynchronous 1F1B systems (PipeDream, SOSP 2019, sections 3.2 and 3.3): one forward and one backward
// in turn, without a flush; filled once and drained at the end. p = 3 stages, 5 batches:
//
//   rank 0  F0 F1 F2       B0 F3 B1 F4 B2    B3    B4
//   rank 1     F0 F1    B0 F2 B1 F3 B2 F4 B3    B4
//   rank 2        F0 B0 F1 B1 F2 B2 F3 B3 F4 B4
#pragma once

#include "harness/pipeline/system.h"

namespace sluice {

// System::schedule. For a chain of stages; with replicas as harness/plan/replicated_schedule.h draws. The options have
// no effect.
Schedule one_f_one_b_without_flush(const ScheduleProblem& problem, const Options& options = {});

// Theory that all systems with this order share: the bubble of one filled and drained run, in-flight activations, and
// the updates (of `per_update` micro-batches) between a batch's forward and its own update. Empty if a stage is
// replicated. Each system adds its weight versions.
Theory theory_of_one_f_one_b_without_flush(const ScheduleProblem& problem, int per_update);

// The same for a rule that updates after every backward, with predicted weights in forwards and no stash. It includes
// the weight versions: the newest and the live predictions: one, or more if the backward reads the forward's again.
Theory theory_with_predictions(const ScheduleProblem& problem, const WeightRule& rule);

}  // namespace sluice
