// Runs one case on its clock and returns its record. A run that fails is a record too.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "harness/case/case.h"
#include "harness/exec/process_group.h"
#include "harness/train/shared_training.h"
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
  SharedTrainings::Turn* turn = nullptr;  // null: the case trains by itself (train/shared_training.h)
};

// Thrown when `cancel` ended the case: there is no record of a run that the user took back.
struct Cancelled {};

// Whatever happens to a case is in its record, so that the cases after it run: a system that cannot run it gives
// "unsupported"; a plan over memory "out_of_memory"; a rank that dies "failed" with its number; data that is missing or
// corrupt, or a process that gets no more memory, "failed"; its time limit, which counts from here, "timed_out". Of the
// processes of a job, one that fails alone throws.
Record run_case(const RunCase& c, const RunHooks& hooks);

}  // namespace sluice
