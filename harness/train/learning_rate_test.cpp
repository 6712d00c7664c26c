#include "harness/train/learning_rate.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(RateScheduleTest, FollowsTheUpdatesOfTheRun) {
  const RateSchedule constant, step{.kind = RateScheduleKind::step, .every_epochs = 2, .factor = 0.1},
      polynomial{.kind = RateScheduleKind::polynomial, .power = 2};
  EXPECT_EQ(rate_factor(constant, 70, 10, 100), 1);
  EXPECT_EQ(rate_factor(step, 19, 10, 100), 1);
  EXPECT_DOUBLE_EQ(rate_factor(step, 20, 10, 100), 0.1);
  EXPECT_DOUBLE_EQ(rate_factor(step, 45, 10, 100), 0.01);
  EXPECT_DOUBLE_EQ(rate_factor(polynomial, 0, 10, 100), 1);
  EXPECT_DOUBLE_EQ(rate_factor(polynomial, 50, 10, 100), 0.25);
}

}  // namespace
}  // namespace sluice
