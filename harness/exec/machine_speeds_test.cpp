#include "harness/exec/machine_speeds.h"

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"

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

TEST(MachineSpeedsTest, ComeBackFromJsonAndMustBePositive) {
  const MachineSpeeds speeds{.arithmetic = 1.5e9, .memory = 2.25e10, .message = 3e5};
  Json json = to_json(speeds);
  JsonReader reader(json, "speeds");
  EXPECT_EQ(machine_speeds_from_json(reader), speeds);
  json["memory"] = 0;
  JsonReader stopped(json, "speeds");
  EXPECT_THROW(machine_speeds_from_json(stopped), InputError);
}

}  // namespace
}  // namespace sluice
