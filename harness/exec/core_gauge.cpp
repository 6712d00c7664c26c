#include "harness/exec/core_gauge.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#include "harness/base/stop.h"

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

// The least that the arithmetic has taken on one thread of this process, so far.
std::atomic<double> least{std::numeric_limits<double>::infinity()};

double compared_with_least(double slowest, double fastest) {
  double known = least.load();
  while (fastest < known && !least.compare_exchange_weak(known, fastest)) {
  }
  return slowest / least.load();
}

}  // namespace

double CoreGauge::slowdown() {
  const double alone = arithmetic_seconds();
  if (threads_ < 2) return compared_with_least(alone, alone);
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
  return compared_with_least(std::ranges::max(seconds), std::min(alone, std::ranges::min(seconds)));
}

void CoreGauge::wait() {
  const Clock::time_point start = Clock::now();
  while (elapsed_since(start) < seconds_left_) {
    stop_now();
    if (undisturbed() && undisturbed()) break;
  }
  seconds_left_ = std::max(seconds_left_ - elapsed_since(start), 0.0);
}

}  // namespace sluice
