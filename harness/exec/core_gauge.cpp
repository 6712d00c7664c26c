#include "harness/exec/core_gauge.h"

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

namespace sluice {

namespace {

using Clock = std::chrono::steady_clock;

double elapsed_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Of arithmetic that keeps a core's units busy and reads no memory, longer than threads that share a core by turns have
// it to themselves.
double arithmetic_seconds() {
  std::array<float, 64> values{};
  const Clock::time_point start = Clock::now();
  for (int k = 0; k < 600'000; ++k)
    for (float& value : values) value = value * 0.999F + 0.5F;
  const volatile float kept = *std::ranges::max_element(values);
  (void)kept;
  return elapsed_since(start);
}

}  // namespace

double CoreGauge::slowdown() {
  if (threads_ < 2) return 1;
  alone_ = std::min(alone_, arithmetic_seconds());
  std::vector<double> seconds(static_cast<std::size_t>(threads_));
  {
    std::barrier begin(threads_);
    std::vector<std::jthread> threads;
    for (double& own : seconds)
      threads.emplace_back([&own, &begin] {
        begin.arrive_and_wait();
        own = arithmetic_seconds();
      });
  }
  const double slowest = std::ranges::max(seconds);
  alone_ = std::min(alone_, std::ranges::min(seconds));
  return slowest / alone_;
}

void CoreGauge::wait() {
  const Clock::time_point start = Clock::now();
  while (threads_ > 1 && elapsed_since(start) < seconds_left_)
    if (side_by_side() && side_by_side()) break;
  seconds_left_ = std::max(seconds_left_ - elapsed_since(start), 0.0);
}

}  // namespace sluice
