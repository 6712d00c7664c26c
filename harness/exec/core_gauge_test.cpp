#include "harness/exec/core_gauge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace sluice {
namespace {

double seconds_of_wait(CoreGauge& gauge) {
  const auto start = std::chrono::steady_clock::now();
  gauge.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(CoreGauge, OneThreadIsComparedWithTheBestThatOneEverWas) {
  CoreGauge gauge(1, 0.5);
  double least = gauge.slowdown();
  for (int k = 0; k < 20; ++k) {
    const double now = gauge.slowdown();
    EXPECT_GE(now, 1);
    least = std::min(least, now);
  }
  EXPECT_LT(least, 1.4);
  EXPECT_LT(seconds_of_wait(gauge), 5);
}

TEST(CoreGauge, MoreThreadsThanCoresAreSeenAndWaitedForNoLongerThanAsked) {
  // Enough to be slow even against one thread that ran while the machine was busy.
  CoreGauge gauge(16 * static_cast<int>(std::thread::hardware_concurrency()), 0.2);
  EXPECT_GT(gauge.slowdown(), 1.4);
  EXPECT_TRUE(gauge.again());
  EXPECT_LT(seconds_of_wait(gauge), 5);
  EXPECT_FALSE(gauge.again()) << "the time is up";
  EXPECT_LT(seconds_of_wait(gauge), 0.1);
}

}  // namespace
}  // namespace sluice
