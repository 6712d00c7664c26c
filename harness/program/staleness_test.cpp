#include "harness/program/staleness.h"

#include <gtest/gtest.h>

#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

TEST(StalenessTest, IsTheUpdatesBetweenAForwardAndItsOwnUpdate) {
  WeightRule every_backward;
  every_backward.update = WeightRule::Update::every_backward;
  const Program program = checked(
      lower(parse_schedule("rank 0: 0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3\nrank 1: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3\n"),
            chain(2), one_stage_per_rank(2), every_backward));
  EXPECT_EQ(staleness_of(program), (std::vector{1, 0}));
}

TEST(StalenessTest, IsZeroWithAFlush) {
  const Program program = checked(
      lower(parse_schedule("rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1B1\n"), chain(2), one_stage_per_rank(2), {}));
  EXPECT_EQ(staleness_of(program), (std::vector{0, 0}));
}

}  // namespace
}  // namespace sluice
