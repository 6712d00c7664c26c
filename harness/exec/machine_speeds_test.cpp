#include "harness/exec/machine_speeds.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(MachineSpeedsTest, AreAllMeasured) {
  const MachineSpeeds speeds = measure_machine_speeds();
  EXPECT_GT(speeds.arithmetic, 0);
  EXPECT_GT(speeds.memory, 0);
  EXPECT_GT(speeds.message, 0);
}

TEST(MachineSpeedsTest, AChangeOfMoreThanFivePerCentIsNamedInBothDirections) {
  const MachineSpeeds then{.arithmetic = 100, .memory = 200, .message = 400};
  EXPECT_EQ(changed_speeds(then, then), "");
  EXPECT_EQ(changed_speeds(then, {.arithmetic = 104.9, .memory = 190.2, .message = 400}), "");
  EXPECT_EQ(changed_speeds(then, {.arithmetic = 100, .memory = 188, .message = 400}), "memory is 6 % slower");
  EXPECT_EQ(changed_speeds(then, {.arithmetic = 50, .memory = 200, .message = 800}),
            "arithmetic is 50 % slower, messages are 100 % faster");
}

}  // namespace
}  // namespace sluice
