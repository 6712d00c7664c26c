#include "harness/train/shared_training.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(SharedTrainingTest, ACaseWhosePlanMayChangeSharesItsTrainingWithNone) {
  RunCase c;
  c.system = "gpipe";
  c.workload = "tiny";
  c.clock = Clock::virtual_clock;
  c.ranks = 2;
  c.steps = 10;
  EXPECT_NE(training_group(c), "");
  RunCase disturbed = c;
  disturbed.interference = "compute:1@0-x2";
  EXPECT_EQ(training_group(disturbed), "");
  RunCase adaptive = c;
  adaptive.system = "dynpipe";
  EXPECT_EQ(training_group(adaptive), "");
}

}  // namespace
}  // namespace sluice
