// The part of a record from one iteration's trace: its bubbles, and a timeline of the ops.
#pragma once

#include "harness/program/trace.h"
#include "results/record.h"

namespace sluice {

// A timeline has at most this many forwards and backwards over all ranks, but at least one per rank.
constexpr std::size_t kTimelineOps = std::size_t{1} << 16;

// The first forwards and backwards of every rank, max_compute_ops or each rank's share of kTimelineOps, and everything
// that runs at the same time.
std::vector<TimelineOp> timeline_of(const Trace& trace, std::size_t max_compute_ops);

// Sets observed.bubble_ratio and observed.span_bubble.
void add_bubbles(Record& record, const Trace& trace);

}  // namespace sluice
