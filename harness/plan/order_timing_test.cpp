#include "harness/plan/order_timing.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

const StageOrders kOneFOneB = {{forward_op(0, 0), forward_op(0, 1), backward_op(0, 0), backward_op(0, 1)},
                               {forward_op(1, 0), backward_op(1, 0), forward_op(1, 1), backward_op(1, 1)}};

// Micro-batches of 3 and 1 samples, F 1 and B 2 seconds of a sample:
//   stage 0  F0 0-3  F1 3-4                      B0 12-18  B1 18-20
//   stage 1          F0 3-6  B0 6-12  F1 12-13  B1 13-15
TEST(OrderTimingTest, OpsBeginOnceTheirStageIsFreeAndTheirInputIsThere) {
  const OrderTiming timing = time_order(kOneFOneB, {{{3, 1}, {3, 1}}, {{6, 2}, {6, 2}}});
  EXPECT_EQ(timing.begin, (std::vector<std::vector<double>>{{0, 3, 12, 18}, {3, 6, 12, 13}}));
  EXPECT_EQ(timing.end, (std::vector<std::vector<double>>{{3, 4, 18, 20}, {6, 12, 13, 15}}));
  EXPECT_EQ(timing.makespan, 20);
}

// Every message takes a second: one before F0 of stage 1, one before B0 of stage 0.
TEST(OrderTimingTest, MessagesDelayWhatReadsThem) {
  const OrderTiming timing = time_order(kOneFOneB, {{{3, 1}, {3, 1}}, {{6, 2}, {6, 2}}, 1});
  EXPECT_EQ(timing.begin, (std::vector<std::vector<double>>{{0, 3, 14, 20}, {4, 7, 13, 14}}));
  EXPECT_EQ(timing.makespan, 22);
}

}  // namespace
}  // namespace sluice
