// The limits of every search: when one is reached, the search ends with the best plan so far. SearchReport
// (harness/pipeline/plan.h) describes the search.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

#include "harness/base/stop.h"
#include "harness/base/thread_seconds.h"

namespace sluice {

// An infeasible time, load or memory.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

struct SearchLimits {
  double seconds = std::numeric_limits<double>::infinity();
  std::int64_t sets = 40'000;  // down-sets or states; a graph with more is cut as a chain
};

// A limit on the processor time of its thread, from its construction on. A check also stops the caller if the case is
// stopped (harness/base/stop.h).
class Deadline {
 public:
  explicit Deadline(double seconds) : seconds_(seconds) {}
  bool passed() const {
    check_stop();
    // No thread computes for longer than the time that passes, whose clock costs no system call.
    const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - began_;
    return gone.count() >= seconds_ && thread_seconds() - begin_ >= seconds_;  // a limit of 0 is reached at once
  }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  double begin_ = thread_seconds();
  double seconds_;
};

}  // namespace sluice
