// Stopping work that only asks check_stop().
#include "harness/base/stop.h"

#include <gtest/gtest.h>

#include <thread>

namespace sluice {
namespace {

void work() {
  for (int i = 0; i < 64; ++i) check_stop();
}

Stopped::Kind how_it_stops() {
  try {
    for (;;) work();
  } catch (const Stopped& stopped) {
    return stopped.kind;
  }
}

TEST(StopScope, WithoutOneNothingStops) { EXPECT_NO_THROW(work()); }

TEST(StopScope, ObeysTheFlag) {
  std::atomic<bool> cancel{false};
  const StopScope scope(&cancel, std::nullopt);
  EXPECT_NO_THROW(work());
  EXPECT_FALSE(scope.left());
  cancel = true;
  EXPECT_EQ(how_it_stops(), Stopped::Kind::cancelled);
}

TEST(StopScope, ObeysTheTime) {
  const StopScope scope(nullptr, Seconds(0.01));
  EXPECT_EQ(how_it_stops(), Stopped::Kind::timed_out);
  EXPECT_EQ(scope.left()->value, 0);
}

TEST(StopScope, ObeysTheScopeAroundIt) {
  std::atomic<bool> cancel{true};
  const StopScope outer(&cancel, std::nullopt);
  const StopScope inner(nullptr, Seconds(1000));
  EXPECT_EQ(how_it_stops(), Stopped::Kind::cancelled);
}

TEST(StopScope, EndsWithItsBlock) {
  std::atomic<bool> cancel{true};
  { const StopScope scope(&cancel, std::nullopt); }
  EXPECT_NO_THROW(work());
}

TEST(NoStopScope, StopsNothingUntilItsEnd) {
  std::atomic<bool> cancel{true};
  const StopScope scope(&cancel, Seconds(0));
  {
    const NoStopScope together(true);
    EXPECT_NO_THROW(work());
    EXPECT_FALSE(time_left());
    const StopScope inner(&cancel, std::nullopt);
    EXPECT_THROW(stop_now(), Stopped);
  }
  EXPECT_THROW(stop_now(), Stopped);
  const NoStopScope inactive(false);
  EXPECT_THROW(stop_now(), Stopped);
}

TEST(StopScope, HoldsForItsThreadOnly) {
  std::atomic<bool> cancel{true};
  const StopScope scope(&cancel, std::nullopt);
  std::thread([] { EXPECT_NO_THROW(work()); }).join();
}

}  // namespace
}  // namespace sluice
