// What a record shows of one iteration's trace: its bubbles, and a timeline of the ops.
#pragma once

#include "harness/program/trace.h"
#include "results/record.h"

namespace sluice {

// Fills in observed.bubble_ratio, observed.span_bubble and the timeline, with the first most_compute_ops forwards and
// backwards of every rank and what runs beside them.
void add_timeline(Record& record, const Trace& trace, std::size_t most_compute_ops);

}  // namespace sluice
