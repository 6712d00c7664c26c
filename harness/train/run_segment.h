// Runs one undrained segment of a training on the case's clock.
//
// Both clocks run the same Program. On the wall clock a session executes it, which gives losses and times. On the
// virtual clock a session executes it just the same, for its losses and weights, and simulate() gives the times; a case
// that asks for no training leaves the session out.
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
  std::vector<double> update_end;  // per update, seconds from the segment's start to when the last rank has made it
  double seconds = 0;              // of the whole segment, filling and draining included
  MicroBatchTimes micro_batches;   // of inference
  std::vector<std::uint64_t> output_digests;  // of inference with a session: RunResult::output_digests
  Trace trace;                                // of one iteration of the program; empty unless asked for
  // Update, from 0, whose loss was not finite. `losses` ends before it, and `update_end` may.
  std::optional<std::int64_t> diverged;
  std::optional<std::int64_t> ended;  // the updates of a run that its windows ended early
};

// start: seconds of the training before it. session: null, for the virtual clock only. request: what the session is to
// run; its iterations are both clocks'. On the virtual clock `traced` asks for the first iteration's trace, on the wall
// clock for the middle one's. Throws RunStopped.
SegmentResult run_segment(const RunCase& c, const Prepared& prepared, const Program& program, Session* session,
                          RunRequest request, double start, bool traced);

}  // namespace sluice
