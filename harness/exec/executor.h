// The wall clock: runs a Program for real, one thread a rank. It knows instructions, messages and
// time; what an instruction does is the rank's Worker (exec/torch; tests use a fake).
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/quantities.h"
#include "harness/exec/pinning.h"
#include "harness/exec/process_group.h"
#include "harness/exec/transport.h"
#include "harness/program/program.h"
#include "harness/program/trace.h"

namespace sluice {

// The clock of a rank whose device works behind its thread (a GPU's stream): what the thread's own
// clock would show is when an op was asked for, not when it was done.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  virtual void start(double seconds) = 0;   // now, with nothing queued, so much of the run is over
  virtual double mark() = 0;                // queues a mark behind everything so far; its number, from 1
  virtual double seconds(double mark) = 0;  // waits until the device has passed it; 0 for mark 0
};

// The stages of one rank. Called by that rank's thread only.
class Worker {
 public:
  virtual ~Worker() = default;
  virtual void begin_run(const Program& program) = 0;  // on the rank's own thread, before the first iteration
  virtual void begin_iteration(int iteration) = 0;
  virtual void compute(const Instruction& op) = 0;    // F, B, I or W
  virtual Message take(const Instruction& send) = 0;  // hands out what the op before it made
  virtual void put(const Instruction& receive, Message message) = 0;
  // The gradients to reduce over replicas: contiguous memory.
  struct Buffer {
    void* data;
    std::size_t count;
    ElementType type;
  };
  virtual Buffer gradients(StageId stage) = 0;
  // Sharded stages, for workers that have any (sharding.h). `count` is of one member's slice,
  // `data` has those of all members in their order.
  // Memory for the gathered weights, the own slice filled in. Ops may read it after the collective.
  struct Gathering {
    Buffer all;
    Shard own;
  };
  virtual Gathering begin_gather(StageId stage);
  virtual void free_weights(StageId stage);
  // What to reduce-scatter; its memory is in use until end_reduce_scatter().
  virtual Buffer begin_reduce_scatter(StageId stage);
  virtual void end_reduce_scatter(StageId stage);
  // The own slice's sum over the members, of every reduce-scatter in its turn and before the step;
  // at times after other ops of the stage.
  virtual void add_reduced(StageId stage, const void* sum);
  virtual void step(const Instruction& step) = 0;
  virtual void end_run() = 0;
  virtual DeviceClock* clock() { return nullptr; }  // none: an op is done when its call returns
};

struct ExecuteOptions {
  int iterations = 1;                         // the program, again and again, without a barrier between
  int traced_iteration = -1;                  // whose ops to time one by one; none: no clock is read between ops
  std::optional<Seconds> timeout;             // of the whole call
  const std::atomic<bool>* cancel = nullptr;  // set by Ctrl-C
  ProcessGroup* processes = nullptr;          // run its own rank only, the other members run the others
  const Pinning* pinning = nullptr;           // where the ranks' threads run; none: anywhere
};

// Thrown by a worker whose training loss is no longer a finite number: the run ends there, and that
// it did is its result, not a failure of the rank.
struct Diverged {
  std::int64_t update = 0;  // of this run, from 0: the first whose loss is not finite
};

struct Execution {
  double seconds = 0;  // from the common start to the last instruction
  // When the last rank finished update u (all iterations), seconds from the start. In a run that
  // diverged: of the updates, from the first on, that every rank had finished by then.
  std::vector<double> update_end;
  std::optional<std::int64_t> diverged;  // Diverged::update; none: all updates were done
  Trace trace;                           // of traced_iteration; its times count from the start too
};

// How a run ended before its time.
class RunStopped : public std::runtime_error {
 public:
  enum class Kind { failed, timed_out, cancelled };
  RunStopped(Kind k, std::optional<Rank> r, const std::string& reason) : std::runtime_error(reason), kind(k), rank(r) {}
  Kind kind;
  std::optional<Rank> rank;  // the one that failed first
};

// workers[r] runs rank r; with a process group only that of its own rank is needed, and every member gets
// the same Execution or exception. The start is common: all members leave a barrier, whose ends
// differ by microseconds, and each counts on its own clock from there. Throws RunStopped: a worker
// threw (its rank and message), the time-out passed, or `cancel` was set; all threads have ended by
// then. A worker that throws Diverged ends the run too, but that is a result: see
// Execution::diverged.
Execution execute(const Program& program, Transport& transport, const std::vector<std::unique_ptr<Worker>>& workers,
                  const ExecuteOptions& options);

}  // namespace sluice
