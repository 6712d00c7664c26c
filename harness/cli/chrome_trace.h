// A trace for Perfetto (ui.perfetto.dev) and chrome://tracing: one named row per rank; ops with their category, stage,
// micro-batch, weight version; messages with their bytes, and arrows from the op that makes one to the op that reads
// it; a graph of each rank's memory.
#pragma once

#include <string>
#include <vector>

#include "harness/base/output_file.h"
#include "harness/pipeline/schedule.h"
#include "harness/pipeline/sharding.h"
#include "harness/program/trace.h"
#include "harness/sim/memory.h"
#include "results/record.h"

namespace sluice {

// "forward", "input gradient", ...: the names of charts (plots/timeline_ops.h).
const char* op_category(Opcode opcode);

struct TraceOfProgram {
  std::string title;  // of the process
  const Program& program;
  const Trace& trace;                        // of the program, once
  std::vector<std::string> ranks = {};       // their names; empty: "rank 0", "rank 1", ...
  std::vector<RankMemory> memory = {};       // with timelines, a graph of bytes by kind; empty: of micro-batches held
  std::vector<RankCollectives> marked = {};  // collectives that take no time: marks at their ops
};
std::string chrome_trace(const TraceOfProgram& of);

// For a record's timeline: an update, or the first batches of an asynchronous system, as measured or simulated.
std::string chrome_trace(const Record& record);

// The file of --trace. Throws InputError if it holds anything but an earlier trace.
OutputFile chrome_trace_file(const std::string& file);

}  // namespace sluice
