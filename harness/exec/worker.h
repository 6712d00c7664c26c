// Worker: carries out the instructions of one rank. The executor knows instructions, messages and time; the worker
// knows layers, weights and gradients. exec/torch has the real one; tests of the executor use a fake.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "harness/exec/transport.h"
#include "harness/program/program.h"

namespace sluice {

// The clock of a rank whose device runs behind its thread (a GPU's stream): the thread's own clock would show when an
// op was queued, not when it ended.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  virtual void start(double seconds) = 0;   // now, with nothing queued; seconds since the run began
  virtual double mark() = 0;                // queues a mark behind everything so far; its number, from 1
  virtual double seconds(double mark) = 0;  // waits until the device has passed the mark; 0 for mark 0
};

// The stages of one rank. Called by that rank's thread only.
class Worker {
 public:
  virtual ~Worker() = default;
  virtual void begin_run(const Program& program) = 0;  // on the rank's own thread, before the first iteration
  virtual void begin_iteration(int iteration) = 0;
  virtual void compute(const Instruction& op) = 0;    // F, B, I, W or a recomputation
  virtual Message take(const Instruction& send) = 0;  // the message of this send, from the results of the ops before it
  virtual void put(const Instruction& receive, Message message) = 0;
  // The gradients to reduce over the replicas of a stage: contiguous memory.
  struct Buffer {
    void* data;
    std::size_t count;
    ElementType type;
  };
  virtual Buffer gradients(StageId stage) = 0;
  // Of gradients(), the parts that other replicas have, too, in an order that is the same on all.
  virtual std::vector<Buffer> shared_gradients(StageId stage) { return {gradients(stage)}; }
  // The same as compute(), for the op that makes the stage's last gradients before they are reduced. It calls `ready`
  // with one part of gradients() after another, each once it is complete; from then on the part is the caller's until
  // it is reduced. Members of a group pass on the same parts in the same order. False: nothing was done, gradients()
  // has them all.
  virtual bool compute_in_buckets(const Instruction& op, const std::function<void(const Buffer&)>& ready);
  // The following are called for programs with such instructions; other workers need not override them. Those up to
  // add_reduced() are for sharded stages (harness/pipeline/sharding.h): `count` is of one member's slice, `data` holds
  // the slices of all members in their order.
  //
  // Memory for the gathered weights, with the own slice filled in. Ops may read it after the collective.
  struct Gathering {
    Buffer all;
    Shard own;
  };
  virtual Gathering begin_gather(StageId stage);
  virtual void free_weights(StageId stage);
  // The gradients to reduce-scatter; their memory is in use until end_reduce_scatter().
  virtual Buffer begin_reduce_scatter(StageId stage);
  virtual void end_reduce_scatter(StageId stage);
  // The own slice's sum over the members, once per reduce-scatter in their order and before the step; possibly after
  // other ops of the stage.
  virtual void add_reduced(StageId stage, const void* sum);
  // This rank's gradient of a weight of which several stages hold copies: on a stage's first rank as reduced over its
  // replicas, zero on the others. The memory is in use until end_copies(), when it holds the sum over all copies.
  virtual Buffer begin_copies(const Instruction& reduction);
  virtual void end_copies(const Instruction& reduction);
  // This rank's part of the norm of all gradients: a number per layer of the model, the sum of its squares, each on one
  // rank and zero on the others. The memory is in use until clip(), which scales the steps to come by their sum.
  virtual Buffer begin_norm();
  virtual void clip();
  // Out, free or back (harness/pipeline/offload.h); a worker of programs without moves need not override it.
  virtual void move_stash(const Instruction& move);
  virtual void step(const Instruction& step) = 0;
  virtual void end_run() = 0;
  virtual DeviceClock* clock() { return nullptr; }  // none: an op is done when its call returns
};

}  // namespace sluice
