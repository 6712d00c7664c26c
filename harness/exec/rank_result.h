// What each rank brings home from a run, and how the processes of a process group put it together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/exec/executor.h"

namespace sluice {

struct RankResult {
  std::vector<double> update_end;
  std::vector<TraceEvent> trace;
  std::size_t steps = 0;  // optimizer steps done
  double end = 0;
};

struct RunOutcome {
  std::optional<RunStopped> failure;
  double seconds = 0;  // from the start to the failure
  std::optional<std::int64_t> diverged;
};

// Fills in the results of the other members' ranks. Returns the earliest failure of any member and
// the earliest update that diverged. Collective.
RunOutcome collect(ProcessGroup& processes, std::vector<RankResult>& results, const RunOutcome& own);

}  // namespace sluice
