// The virtual clock for an order that is given as a rule, for a chain whose stage s is on rank s mod p and whose
// messages take a latency and no time for their bytes. One pass checks and times the order op by op and stores no op:
// memory grows with the ranks and the waiting messages, not with the ops. Results equal those of simulate() for the
// lowered schedule on latency_cluster(), and of peaks(), to the bit (a property test compares them).
#pragma once

#include <span>
#include <vector>

#include "harness/pipeline/plan.h"
#include "harness/pipeline/schedule.h"
#include "harness/program/trace.h"

namespace sluice {

struct ChainTimes {
  Bubbles bubble;                  // of the first update
  std::vector<double> update_end;  // seconds: when the last rank has finished update u
  double barrier_end = 0;          // seconds: of one update and its barrier (RunPolicy::step_barrier)
  std::vector<RankPeak> peak;      // per rank, of an update
};

// rule: F and B, or F, I and W (a stage's in the order of its I), of every micro-batch of an update; costs: per stage.
// The updates follow one another without a barrier. Throws logic_error if the rule is not an order of these ops, or
// deadlocks.
ChainTimes time_chain(const OpRule& rule, std::span<const StageCost> costs, int ranks, int microbatches,
                      Seconds latency, int updates);

}  // namespace sluice
