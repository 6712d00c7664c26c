// The limits that every search takes: where they run out, it ends with the best plan so far. What it says of itself is
// SearchReport (harness/pipeline/plan.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace sluice {

// What no plan can do: its time, load or memory.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

struct SearchLimits {
  double seconds = std::numeric_limits<double>::infinity();
  std::int64_t sets = 40'000;  // down-sets or states; a graph with more is cut as a chain
};

// Has the time run out? Counts from its making.
class Deadline {
 public:
  explicit Deadline(double seconds) : seconds_(seconds) {}
  bool passed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() > seconds_;
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double seconds_;
};

}  // namespace sluice
