// Trace: when every op ran, on either clock. Seconds from the start of the program.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "harness/program/program.h"

namespace sluice {

struct TraceEvent {
  Instruction instruction;    // compute, reduce or step; messages are not events of a rank
  double start = 0, end = 0;  // seconds
};

// A message in transit: from the send to the arrival, including waits for a medium.
struct TraceMessage {
  Instruction send;
  Rank from, to;
  double start = 0, end = 0;  // seconds
  double bytes = 0;
};

struct Trace {
  std::vector<std::vector<TraceEvent>> ranks;
  // Per rank, with sharded stages: gathers and reduce-scatters, which overlap its events.
  std::vector<std::vector<TraceEvent>> collectives = {};
  // Per rank, with moves of stashes: copies to and from its host, which overlap its events.
  std::vector<std::vector<TraceEvent>> host_copies = {};
  std::vector<TraceMessage> messages = {};  // on the virtual clock: those that carry values
  int sequence_chunks = 1;                  // the program's
};

// For inference, per micro-batch, seconds from the start: when its first forward began, and when its last one ended.
struct MicroBatchTimes {
  std::vector<double> entered, left;

  MicroBatchTimes() = default;
  explicit MicroBatchTimes(std::size_t micro_batches)
      : entered(micro_batches, std::numeric_limits<double>::infinity()), left(micro_batches, 0) {}
  // Adds one forward of the program; `iteration` counts the program's runs.
  void add(const Program& program, const Instruction& forward, int iteration, double start, double end);
};

// A rank's compute time: from the start of its first op to the end of its last, and the busy part of it.
struct BusyTime {
  double first = std::numeric_limits<double>::infinity(), last = 0, busy = 0;  // seconds
  void add(double start, double end, double seconds) {
    first = std::min(first, start);
    last = std::max(last, end);
    busy += seconds;
  }
};

// The two measures of pipeline bubbles, over compute ops. The bubble ratio is the share of all ranks' time, between the
// first start and the last end of any rank, in which a rank does not compute:
//   bubble_ratio = sum over ranks (makespan - busy) / (ranks * makespan).
// The span bubble uses the busiest rank and the longest time from a rank's own first op to its own last:
//   span_bubble = 1 - max over ranks busy / max over ranks (last end - first start).
struct Bubbles {
  double makespan = 0;       // first start to last end over all ranks, seconds
  std::vector<double> idle;  // per rank: makespan minus busy, seconds
  double bubble_ratio = 0;
  double max_span = 0;  // longest (own last end - own first start), seconds
  double span_bubble = 0;
};
Bubbles bubbles_of(std::span<const BusyTime> ranks);
Bubbles bubbles(const Trace& trace);

}  // namespace sluice
