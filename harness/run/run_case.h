// Runs one case on its clock and returns its record. A run that fails is a record too.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "harness/case/case.h"
#include "harness/exec/process_group.h"
#include "results/record.h"

namespace sluice {

struct RunHooks {
  const std::atomic<bool>* cancel = nullptr;      // Ctrl-C
  std::function<void(double fraction)> progress;  // done of this case; from a rank's thread, so it must be quick
  // Where to keep what a case has done after each evaluation, and to go on from what is there. "": nowhere.
  std::string checkpoints = {};
  // The processes of the job, for cases whose ranks are processes (runs_as_processes): all of them call run_case with
  // the same case. It runs on the first so many as it has ranks; the record is the first one's.
  ProcessGroup* job = nullptr;
};

// Thrown when `cancel` ended the case: there is no record of a run that the user took back.
struct Cancelled {};

// Throws InputError only for what is wrong before anything runs and would be wrong in any run (a data set that is
// missing or corrupt, a cost file that does not fit). A system that cannot run the case gives a record with outcome
// "unsupported"; a plan over memory "out_of_memory"; a rank that dies "failed" with its number.
Record run_case(const RunCase& c, const RunHooks& hooks);

}  // namespace sluice
