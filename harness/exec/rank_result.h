// The result of each rank's run, and its exchange between the members of a process group.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/exec/process_group.h"
#include "harness/exec/run_stopped.h"
#include "harness/program/trace.h"

namespace sluice {

struct RankResult {
  // Seconds from the start to the rank's last step of each update; for inference, to its last forward of each batch
  // that leaves the pipeline there.
  std::vector<double> update_end;
  MicroBatchTimes micro_batches;  // of inference
  std::vector<TraceEvent> trace;
  std::size_t steps = 0;  // optimizer steps done
  double end = 0;         // seconds from the start to the rank's last instruction
};

struct RunOutcome {
  std::optional<RunStopped> failure;
  double seconds = 0;  // from the start to the failure
  std::optional<std::int64_t> diverged;
};

// Sets the results of the other members' ranks. Returns the earliest failure of any member and the earliest update that
// diverged. Collective.
RunOutcome collect(ProcessGroup& processes, std::vector<RankResult>& results, const RunOutcome& own);

}  // namespace sluice
