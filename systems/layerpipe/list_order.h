// The order of ops on every rank of a pipeline whose weight gradients run anywhere: a list schedule.
//
// What decides weight versions is fixed: a stage's F and I follow 1F1B without a flush, stage k of K with K - 1 - k
// forwards to warm up, and where its W run on its own rank, each follows its I. Only the W that run on another rank
// float. The list schedule runs all tasks on a clock: of those that could begin, the earliest begins; at the same time
// on one rank, that of the earliest micro-batch, I before W before F. A stage whose W run elsewhere stops after I j +
// delay (WeightRule::weight_gradient_delay) until W j is done.
#pragma once

#include "harness/pipeline/system.h"

namespace sluice {

// Of a chain with a stage a rank. Seconds from problem.costs, or 1 each; messages take no time.
Schedule list_order(const ScheduleProblem& problem, int delay);

}  // namespace sluice
