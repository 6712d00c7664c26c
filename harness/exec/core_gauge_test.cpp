#include "harness/exec/core_gauge.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace sluice {
namespace {

double seconds_of_wait(CoreGauge& gauge) {
  const auto start = std::chrono::steady_clock::now();
  gauge.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(CoreGauge, OneThreadHasNobodyToShareWith) {
  CoreGauge gauge(1, 60);
  EXPECT_EQ(gauge.slowdown(), 1);
  EXPECT_FALSE(gauge.again());
  EXPECT_LT(seconds_of_wait(gauge), 1);
}

TEST(CoreGauge, MoreThreadsThanCoresAreSeenAndWaitedForNoLongerThanAsked) {
  CoreGauge gauge(4 * static_cast<int>(std::thread::hardware_concurrency()), 0.2);
  EXPECT_GT(gauge.slowdown(), 1.4);
  EXPECT_TRUE(gauge.again());
  EXPECT_LT(seconds_of_wait(gauge), 5);
  EXPECT_FALSE(gauge.again()) << "the time is up";
  EXPECT_LT(seconds_of_wait(gauge), 0.1);
}

}  // namespace
}  // namespace sluice
