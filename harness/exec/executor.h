// The wall clock: runs a Program for real, one thread per rank. It knows instructions, messages and time; the rank's
// Worker (worker.h) carries out an instruction.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "harness/base/quantities.h"
#include "harness/exec/disturbance.h"
#include "harness/exec/pinning.h"
#include "harness/exec/process_group.h"
#include "harness/exec/run_stopped.h"
#include "harness/exec/transport.h"
#include "harness/exec/window_reports.h"
#include "harness/exec/worker.h"
#include "harness/program/program.h"
#include "harness/program/trace.h"

namespace sluice {

struct ExecuteOptions {
  int iterations = 1;              // runs of the program, without a barrier in between
  int traced_iteration = -1;       // the one whose ops are timed individually; -1: no clock is read between ops
  std::optional<Seconds> timeout;  // of the whole call
  const std::atomic<bool>* cancel = nullptr;  // set by Ctrl-C
  ProcessGroup* processes = nullptr;          // given: run this process's rank only; the other members run the others
  const Pinning* pinning = nullptr;           // where the ranks' threads run; none: anywhere
  // Slows the ranks; the transport applies its throttle. Null: none.
  const Disturbance* disturbance = nullptr;
  const WindowOptions* windows = nullptr;  // reports of the ranks' seconds, and reactions to them; null: none
};

struct Execution {
  double seconds = 0;  // from the common start to the last instruction
  // When the last rank finished update u (of all iterations), seconds from the start. If the run diverged: only the
  // first updates that every rank had finished by then.
  std::vector<double> update_end;
  MicroBatchTimes micro_batches;         // of inference on threads, all iterations; seconds from the start
  std::optional<std::int64_t> diverged;  // Diverged::update; none: all updates were done
  std::optional<std::int64_t> ended;     // number of updates of a run that WindowOptions ended early
  Trace trace;                           // of traced_iteration; its times count from the start too
};

// workers[r] runs rank r. With a process group only the worker of this process's rank is needed, and every member gets
// the same Execution or exception. The start is common: all members leave a barrier, whose ends differ by microseconds,
// and each uses its own clock from there. Throws RunStopped: a worker threw (its rank and message), the time-out
// passed, or `cancel` was set; all threads have ended by then. If a worker throws Diverged, the run also ends, but that
// is a result: see Execution::diverged.
Execution execute(const Program& program, Transport& transport, const std::vector<std::unique_ptr<Worker>>& workers,
                  const ExecuteOptions& options);

}  // namespace sluice
