// Runs one undrained segment of a training on the case's clock.
//
// Both clocks run the same Program. On the wall clock a session executes it, which gives losses and times. On the
// virtual clock a session also executes it, for its losses and weights, and simulate() gives the times; a case without
// training has no session.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/case/case.h"
#include "harness/case/prepared.h"
#include "harness/exec/session.h"
#include "harness/program/program.h"
#include "harness/program/trace.h"

namespace sluice {

struct SegmentResult {
  std::vector<double> losses;      // per update, mean over its samples; empty without a session
  std::vector<double> update_end;  // per update, seconds from the segment's start to its end on the last rank
  double seconds = 0;              // of the whole segment, including filling and draining
  MicroBatchTimes micro_batches;   // for inference
  std::vector<std::uint64_t> output_digests;  // for inference with a session: RunResult::output_digests
  Trace trace;                                // of one iteration of the program; empty unless asked for
  // Update, from 0, whose loss was not finite. `losses` ends before it; `update_end` may, too.
  std::optional<std::int64_t> diverged;
  std::optional<std::int64_t> ended;  // number of updates of a run that its windows ended early
};

// start: seconds of the training before it. session: null, for the virtual clock only. request: for the session; both
// clocks use its iterations. `traced` asks for the trace of the first iteration on the virtual clock, of the middle one
// on the wall clock. Throws RunStopped.
SegmentResult run_segment(const RunCase& c, const Prepared& prepared, const Program& program, Session* session,
                          RunRequest request, double start, bool traced);

}  // namespace sluice
