// Reduces the gradients of a rank's replicated stages in buckets while the rank continues to compute: the ops that make
// a stage's last gradients pass on each bucket as soon as it is complete. On a CPU a separate thread all-reduces one
// after the other; on GPUs the transport queues them (Transport::begin_all_reduce).
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "harness/exec/transport.h"
#include "harness/exec/worker.h"
#include "harness/program/program.h"

namespace sluice {

// One per rank, used by the rank's thread. Ends its thread when it is destroyed: after a run that failed, only once the
// transport was aborted.
class GradientReducer {
 public:
  GradientReducer(const Program& program, Rank rank, Transport& transport);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Runs instruction k of the rank's program, a compute op.
  void compute(std::size_t k, Worker& worker);
  // All-reduces the stage's gradients, or waits for its buckets. Throws what an all-reduce of them has thrown.
  void reduce(const Instruction& reduction, Worker& worker);

 private:
  struct Job {
    std::int32_t group;
    Worker::Buffer bucket;
  };
  void post(std::int32_t group, const Worker::Buffer& bucket);
  void run();
  int member(StageId stage) const;

  const Program& program_;
  const Rank rank_;
  Transport& transport_;
  std::map<std::size_t, std::int32_t> early_;  // last op before a reduction, to its group; empty: none is early
  std::set<std::int32_t> posted_;              // groups, until their reduction
  bool queued_ = false;                        // on the device, not to the thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  // the first one is running
  bool closing_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // from the first bucket on
};

}  // namespace sluice
