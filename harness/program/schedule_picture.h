// A trace as text: one row per rank, time to the right, as papers draw their schedules.
#pragma once

#include <cstddef>
#include <string>

#include "harness/program/trace.h"

namespace sluice {

// "F0" is the forward of micro-batch 0, "B0--" a backward twice as long as the shortest op, "R0" a recomputation,
// "F1B0+-" an overlapped pair, "." a rank that waits. For ranks of two stages, small letters are the second; for more
// stages, "5F0" names the stage. With sequence chunks, "F0.1" is chunk 1. A picture of more than `width` columns
// continues below in bands, each with its start time. Throws InputError above 20,000 columns.
std::string draw_schedule(const Trace& trace, std::size_t width = 80);

}  // namespace sluice
