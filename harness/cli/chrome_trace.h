// A simulated schedule as a trace that chrome://tracing and Perfetto show.
#pragma once

#include <string>
#include <vector>

#include "harness/pipeline/schedule.h"
#include "harness/pipeline/sharding.h"
#include "harness/program/trace.h"

namespace sluice {

// A row of ops a rank, and a graph of the micro-batches whose activations it holds. Gathers and reductions of sharded
// weights, which take no time in `sluice schedule`, are marks beside the ops that they belong to. Throws InputError.
void write_chrome_trace(const std::string& file, const Trace& trace, const Placement& placement,
                        const std::vector<RankCollectives>& collectives);

}  // namespace sluice
