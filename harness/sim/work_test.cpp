#include "harness/sim/work.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(WorkTest, EndsWhenTheIntegralOfItsSpeedIsItsSeconds) {
  Work work(10, 0, 1);
  EXPECT_DOUBLE_EQ(work.end(), 10);
  work.change_speed(4, 0.5);
  EXPECT_DOUBLE_EQ(work.end(), 16);
  work.change_speed(10, 1);  // 4 s and 3 s are done
  EXPECT_DOUBLE_EQ(work.end(), 13);
}

TEST(WorkTest, NeverEndsAtSpeedZero) {
  Work work(1, 2, 1);
  work.change_speed(2.5, 0);
  EXPECT_EQ(work.end(), std::numeric_limits<double>::infinity());
  work.change_speed(5, 1);
  EXPECT_DOUBLE_EQ(work.end(), 5.5);
}

}  // namespace
}  // namespace sluice
