#include "harness/exec/core_gauge.h"

#include <gtest/gtest.h>

#include <thread>

namespace sluice {
namespace {

TEST(CoreGauge, OneThreadIsComparedWithTheBestThatOneEverWas) {
  CoreGauge gauge(1, 0.5);
  for (int k = 0; k < 20; ++k) EXPECT_GE(gauge.slowdown(), 1);
  gauge.wait();
}

TEST(CoreGauge, MoreThreadsThanCoresAreSeenAndWaitedForNoLongerThanAsked) {
  // Enough to be slow even against one thread that ran while the machine was busy.
  CoreGauge gauge(16 * static_cast<int>(std::thread::hardware_concurrency()), 0.2);
  EXPECT_GT(gauge.slowdown(), 1.4);
  EXPECT_TRUE(gauge.again());
  gauge.wait();
  EXPECT_FALSE(gauge.again()) << "the time is up";
}

}  // namespace
}  // namespace sluice
