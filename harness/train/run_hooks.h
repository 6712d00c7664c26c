// RunHooks: what the caller of a case adds to it: cancellation, progress, and what cases share.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "harness/exec/process_group.h"
#include "harness/train/shared_training.h"

namespace sluice {

struct RunHooks {
  const std::atomic<bool>* cancel = nullptr;      // Ctrl-C
  std::function<void(double fraction)> progress;  // finished share; called from a rank's thread, so it must be quick
  // Folder for a case's state after each evaluation, from which it continues. "": none.
  std::string checkpoints = {};
  // The processes of the job, for cases whose ranks are processes (runs_as_processes). All of them call run_case with
  // the same case, which runs on the first ones, one per rank; the record is the first one's.
  ProcessGroup* job = nullptr;
  bool timeline = true;                   // the record keeps one; false: only its bubbles
  SharedTrainings::Turn* turn = nullptr;  // null: the case trains by itself (shared_training.h)
};

}  // namespace sluice
