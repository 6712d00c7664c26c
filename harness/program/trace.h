// Trace: when every op ran, on either clock. Seconds from the start of the program.
#pragma once

#include <vector>

#include "harness/base/quantities.h"
#include "harness/program/program.h"

namespace sluice {

struct TraceEvent {
  Instruction instruction;    // compute, reduce or step; messages are no events of a rank
  double start = 0, end = 0;  // seconds
};

struct Trace {
  std::vector<std::vector<TraceEvent>> ranks;
  // Per rank, where stages are sharded: gathers and reduce-scatters, which run beside its events.
  std::vector<std::vector<TraceEvent>> collectives = {};
};

// The two bubble measures of specs/sync_schedules.md section 0, over compute events.
struct Bubbles {
  double makespan = 0;       // first start to last end over all ranks, seconds
  std::vector<double> idle;  // per rank: makespan minus busy, seconds
  double bubble_ratio = 0;   // idle / (ranks * makespan)
  double max_span = 0;       // longest (own last end - own first start)
  double span_bubble = 0;    // 1 - work of the busiest rank / max_span
};
Bubbles bubbles(const Trace& trace);

}  // namespace sluice
