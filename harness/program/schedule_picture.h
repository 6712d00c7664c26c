// A trace as text: one row a rank, time to the right, as papers draw their schedules.
#pragma once

#include <cstddef>
#include <string>

#include "harness/program/trace.h"

namespace sluice {

// "F0" is the forward of micro-batch 0, "B0--" a backward twice as long as the shortest op, "R0" a recomputation,
// "F1B0+-" an overlapped pair, "." a rank that waits. Ranks of two stages: small letters are the second. More: "5F0",
// with the stage. Where sequences are cut, "F0.1" is of chunk 1. A picture of more than `width` columns goes on below
// in further bands, each with the time it begins at. Throws InputError if it had more than 20,000 columns.
std::string draw_schedule(const Trace& trace, std::size_t width = 80);

}  // namespace sluice
