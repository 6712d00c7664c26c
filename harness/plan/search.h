// The limits that every search takes: where they run out, it ends with the best plan so far. What it says of itself is
// SearchReport (harness/pipeline/plan.h).
#pragma once

#include <cstdint>
#include <limits>

#include "harness/base/stop.h"
#include "harness/base/thread_seconds.h"

namespace sluice {

// What no plan can do: its time, load or memory.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

struct SearchLimits {
  double seconds = std::numeric_limits<double>::infinity();
  std::int64_t sets = 40'000;  // down-sets or states; a graph with more is cut as a chain
};

// Has the time run out? Counts the processor time of its thread from its making on. Whoever asks is stopped, too, where
// the case is (harness/base/stop.h).
class Deadline {
 public:
  explicit Deadline(double seconds) : seconds_(seconds) {}
  bool passed() const {
    check_stop();
    return thread_seconds() - begin_ >= seconds_;  // of no time at all, nothing is left
  }

 private:
  double begin_ = thread_seconds();
  double seconds_;
};

}  // namespace sluice
