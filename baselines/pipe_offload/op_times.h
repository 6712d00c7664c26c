// When the ops of an order run, by the times of its stages: what PipeOffload plans copies with.
#pragma once

#include <vector>

#include "harness/pipeline/system.h"

namespace sluice {

struct TimedOp {
  Op op;
  double start = 0, end = 0;  // seconds
};

// Of every rank, as early as the order allows; a message takes message_seconds(). For a chain of one replica, and I and
// W apart.
using TimedOrder = std::vector<std::vector<TimedOp>>;
TimedOrder timed(const ScheduleProblem& problem, const Schedule& schedule);

// Seconds of an op; without costs in the problem, 1.
double seconds_of(const ScheduleProblem& problem, const Op& op);

}  // namespace sluice
