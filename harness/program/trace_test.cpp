#include "harness/program/trace.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TraceEvent event(Opcode opcode, double start, double end) { return {{opcode}, start, end}; }

TEST(BubblesTest, BothMeasuresByHand) {
  // Rank 0 works 4 of 10 seconds, within a span of 10; rank 1 works 6 within 7.
  const Trace trace{
      {{event(Opcode::forward, 1, 3), event(Opcode::backward, 9, 11)},
       {event(Opcode::forward, 3, 6), event(Opcode::backward, 7, 10), event(Opcode::optimizer_step, 10, 20)}}};
  const Bubbles b = bubbles(trace);
  EXPECT_DOUBLE_EQ(b.makespan, 10);
  EXPECT_EQ(b.idle, (std::vector<double>{6, 4}));
  EXPECT_DOUBLE_EQ(b.bubble_ratio, 0.5);
  EXPECT_DOUBLE_EQ(b.max_span, 10);
  EXPECT_DOUBLE_EQ(b.span_bubble, 0.4);
}

TEST(BubblesTest, ARankWithoutWorkIsAllBubble) {
  const Bubbles b = bubbles({{{event(Opcode::forward, 0, 2)}, {}}});
  EXPECT_DOUBLE_EQ(b.bubble_ratio, 0.5);
  EXPECT_DOUBLE_EQ(b.span_bubble, 0);
}

TEST(BubblesTest, AnEmptyTraceHasNone) {
  EXPECT_EQ(bubbles({}).makespan, 0);
  EXPECT_EQ(bubbles({{{}, {}}}).bubble_ratio, 0);
}

}  // namespace
}  // namespace sluice
