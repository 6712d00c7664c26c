// RunHooks: what whoever runs a case gives it besides the case: how it is cancelled, whom it tells, what it shares.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "harness/exec/process_group.h"
#include "harness/train/shared_training.h"

namespace sluice {

struct RunHooks {
  const std::atomic<bool>* cancel = nullptr;      // Ctrl-C
  std::function<void(double fraction)> progress;  // done of this case; from a rank's thread, so it must be quick
  // Folder for what a case has done after each evaluation, from which it goes on. "": none.
  std::string checkpoints = {};
  // The processes of the job, for cases whose ranks are processes (runs_as_processes): all of them call run_case with
  // the same case. It runs on as many of the first ones as it has ranks; the record is the first one's.
  ProcessGroup* job = nullptr;
  bool timeline = true;                   // the record keeps one; false: its bubbles alone
  SharedTrainings::Turn* turn = nullptr;  // null: the case trains by itself (shared_training.h)
};

}  // namespace sluice
