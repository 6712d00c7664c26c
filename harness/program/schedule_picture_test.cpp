#include "harness/program/schedule_picture.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

TraceEvent event(Opcode opcode, int stage, int micro, double start, double end) {
  Instruction i;
  i.opcode = opcode;
  i.stage = StageId(stage);
  i.micro = Micro(micro);
  return {i, start, end};
}

TEST(GridTest, DrawsTimeToTheRight) {
  const Trace trace{{{event(Opcode::forward, 0, 0, 0, 1), event(Opcode::backward, 0, 0, 4, 6)},
                     {event(Opcode::forward, 1, 0, 1, 2), event(Opcode::input_gradient, 1, 0, 2, 3),
                      event(Opcode::weight_gradient, 1, 0, 3, 4), event(Opcode::optimizer_step, 1, 0, 4, 5)}}};
  EXPECT_EQ(draw_schedule(trace),
            "rank 0  F0......B0--\n"
            "rank 1  ..F0I0W0....\n");
}

TEST(GridTest, TheSecondStageOfARankIsInSmallLetters) {
  const Trace trace{{{event(Opcode::forward, 0, 9, 0, 1), event(Opcode::forward, 3, 10, 1, 2)}}};
  EXPECT_EQ(draw_schedule(trace), "rank 0  F9-f10\n");
}

TEST(GridTest, RecomputationIsAnOp) {
  const Trace trace{{{event(Opcode::forward, 0, 0, 0, 1), event(Opcode::recompute, 0, 0, 2, 3),
                      event(Opcode::backward, 0, 0, 3, 5)}}};
  EXPECT_EQ(draw_schedule(trace), "rank 0  F0..R0B0--\n");
}

TEST(GridTest, APlusJoinsAnOverlappedPair) {
  Trace trace{
      {{event(Opcode::forward, 0, 1, 0, 1), event(Opcode::backward, 0, 0, 1, 3), event(Opcode::forward, 0, 2, 3, 4)}}};
  trace.ranks[0][0].instruction.overlapped = true;
  EXPECT_EQ(draw_schedule(trace), "rank 0  F1B0+-F2\n");
  trace.ranks[0][1].end = 2;  // as long as the forward: the sign takes room
  EXPECT_EQ(draw_schedule(trace), "rank 0  F1-B0+...F2-\n");
}

TEST(GridTest, MoreThanTwoStagesAreNumbered) {
  const Trace trace{
      {{event(Opcode::forward, 0, 0, 0, 1), event(Opcode::forward, 1, 0, 1, 2), event(Opcode::forward, 2, 0, 2, 3)}}};
  EXPECT_EQ(draw_schedule(trace), "rank 0  0F0-1F0-2F0-\n");
}

TEST(GridTest, LongGridsGoOnBelow) {
  Trace trace{{{}}};
  for (int i = 0; i < 5; ++i) trace.ranks[0].push_back(event(Opcode::forward, 0, i, 2 * i, 2 * i + 2));
  EXPECT_EQ(draw_schedule(trace, 13), "time 0\nrank 0  F0F1\ntime 4\nrank 0  F2F3\ntime 8\nrank 0  F4\n");
}

TEST(GridTest, ScalesToTheShortestOpAndLeavesOutWhatTakesNoTime) {
  const Trace trace{{{event(Opcode::forward, 0, 0, 0, 10), event(Opcode::input_gradient, 0, 0, 10, 25),
                      event(Opcode::weight_gradient, 0, 0, 25, 25)}}};
  EXPECT_EQ(draw_schedule(trace), "rank 0  F0I0-\n");
  EXPECT_EQ(draw_schedule({{{}}}), "");
}

TEST(GridTest, WhatNobodyCouldReadIsRejected) {
  const Trace trace{{{event(Opcode::forward, 0, 0, 0, 1), event(Opcode::backward, 0, 0, 1, 1e6)}}};
  EXPECT_EQ(error_of([&] { draw_schedule(trace); }),
            "grid: would be 2000000 columns wide; draw fewer micro-batches, or costs that differ "
            "less");
}

}  // namespace
}  // namespace sluice
