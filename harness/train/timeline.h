// What a record shows of one iteration's trace: its bubbles, and a timeline of the ops.
#pragma once

#include "harness/program/trace.h"
#include "results/record.h"

namespace sluice {

// A timeline has at most so many forwards and backwards over all ranks, but one a rank at least.
constexpr std::size_t kTimelineOps = std::size_t{1} << 16;

// Fills in observed.bubble_ratio, observed.span_bubble and the timeline, with the first forwards and backwards of every
// rank, most_compute_ops or as many as kTimelineOps leaves each rank, and what runs beside them.
void add_timeline(Record& record, const Trace& trace, std::size_t most_compute_ops);

}  // namespace sluice
