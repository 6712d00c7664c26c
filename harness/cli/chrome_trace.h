// A simulated schedule as a trace that chrome://tracing and Perfetto show.
#pragma once

#include <string>
#include <vector>

#include "harness/base/output_file.h"
#include "harness/pipeline/schedule.h"
#include "harness/pipeline/sharding.h"
#include "harness/program/trace.h"

namespace sluice {

// A row of ops a rank, and a graph of the micro-batches whose activations it holds. Gathers and reductions of sharded
// weights, which take no time in `sluice schedule`, are marks at the ops that they belong to.
std::string chrome_trace(const Trace& trace, const Placement& placement,
                         const std::vector<RankCollectives>& collectives);

// Where --trace writes. Throws InputError if the file holds anything but an earlier trace.
OutputFile chrome_trace_file(const std::string& file);

}  // namespace sluice
