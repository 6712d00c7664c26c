// Trace: when every op ran, on either clock. Seconds from the start of the program.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "harness/program/program.h"

namespace sluice {

struct TraceEvent {
  Instruction instruction;    // compute, reduce or step; messages are no events of a rank
  double start = 0, end = 0;  // seconds
};

// What a rank sends, on its way: from the send until it has arrived, waiting for a medium included.
struct TraceMessage {
  Instruction send;
  Rank from, to;
  double start = 0, end = 0;  // seconds
};

struct Trace {
  std::vector<std::vector<TraceEvent>> ranks;
  // Per rank, where stages are sharded: gathers and reduce-scatters, which overlap its events.
  std::vector<std::vector<TraceEvent>> collectives = {};
  // Per rank, where stashes move: copies to and from its host, which overlap its events.
  std::vector<std::vector<TraceEvent>> host_copies = {};
  std::vector<TraceMessage> messages = {};  // of the virtual clock: those with values in them
  int sequence_chunks = 1;                  // the program's
};

// Of inference, per micro-batch, seconds from the start: when its first forward began, and when its last one ended.
struct MicroBatchTimes {
  std::vector<double> entered, left;

  MicroBatchTimes() = default;
  explicit MicroBatchTimes(std::size_t micro_batches)
      : entered(micro_batches, std::numeric_limits<double>::infinity()), left(micro_batches, 0) {}
  // Takes in one forward: what it was given to do is the program's, `iteration` counts the program's runs.
  void add(const Program& program, const Instruction& forward, int iteration, double start, double end);
};

// When a rank computes: from the start of its first op to the end of its last, and how much of that.
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
// The span bubble looks at the busiest rank and at the longest time from a rank's own first op to its own last:
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
