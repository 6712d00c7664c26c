// Weight gradients on another rank in a system that updates after every backward: the gradient of an update arrives
// while its stage goes on, and the step is late by as many input gradients as the rule says.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/program/staleness.h"

namespace sluice {
namespace {

// Stages in a row, each on its own rank in the order of 1F1B without a flush, and all W on one rank more.
struct OneLane {
  Schedule schedule;
  Placement placement;
  StageGraph graph;
};
OneLane one_lane(int stages, int microbatches) {
  OneLane lane{empty_schedule(stages + 1, microbatches), one_stage_per_rank(stages), chain(stages)};
  lane.placement.weight_gradient_ranks.assign(stages, Rank(stages));
  for (int s = 0; s < stages; ++s) {
    const int warm_up = std::min(stages - 1 - s, microbatches);
    std::vector<Op>& ops = lane.schedule.ranks[s];
    for (int i = 0; i < warm_up; ++i) ops.push_back(forward_op(s, i));
    for (int i = 0; i < microbatches; ++i) {
      if (warm_up + i < microbatches) ops.push_back(forward_op(s, warm_up + i));
      ops.push_back(input_gradient_op(s, i));
    }
  }
  for (int i = 0; i < microbatches; ++i)
    for (int s = stages - 1; s >= 0; --s) lane.schedule.ranks[stages].push_back(weight_gradient_op(s, i));
  return lane;
}

WeightRule late(int delay, int accumulate = 1) {
  return {.update = WeightRule::Update::every_backward, .accumulate = accumulate, .weight_gradient_delay = delay};
}

Program lowered(const OneLane& lane, const WeightRule& rule, const RunPolicy& policy = {}) {
  return lower(lane.schedule, lane.graph, lane.placement, rule, {}, policy);
}

std::string text_with_versions(const std::vector<Instruction>& rank) {
  std::string text;
  for (const Instruction& i : rank) {
    text += to_text(i);
    if (is_compute(i.opcode) && i.opcode != Opcode::weight_gradient) text += " @" + std::to_string(i.version);
    if (i.opcode == Opcode::optimizer_step) text += " =" + std::to_string(i.version);
    text += "; ";
  }
  return text;
}

TEST(LateSteps, AStepStandsBeforeTheFirstOpAfterItsDelay) {
  const Program program = lowered(one_lane(1, 4), late(1));
  EXPECT_EQ(text_with_versions(program.ranks[0]),
            "0F0 @0; 0I0 @0; send_stash 0 0; 0F1 @0; 0I1 @0; send_stash 0 1; "
            "receive_weight_gradient 0; step 0 =1; 0F2 @1; 0I2 @1; send_stash 0 2; "
            "receive_weight_gradient 0; step 0 =2; 0F3 @2; 0I3 @2; send_stash 0 3; "
            "receive_weight_gradient 0; step 0 =3; receive_weight_gradient 0; step 0 =4; ");
  EXPECT_EQ(text_with_versions(program.ranks[1]),
            "receive_stash 0 0; 0W0; send_weight_gradient 0; receive_stash 0 1; 0W1; send_weight_gradient 0; "
            "receive_stash 0 2; 0W2; send_weight_gradient 0; receive_stash 0 3; 0W3; send_weight_gradient 0; ");
  EXPECT_TRUE(check(program).empty());
}

TEST(LateSteps, WithoutADelayTheStageWaitsForItsOwnGradient) {
  const Program program = lowered(one_lane(1, 2), late(0));
  EXPECT_EQ(text_with_versions(program.ranks[0]),
            "0F0 @0; 0I0 @0; send_stash 0 0; receive_weight_gradient 0; step 0 =1; "
            "0F1 @1; 0I1 @1; send_stash 0 1; receive_weight_gradient 0; step 0 =2; ");
}

// F of micro-batch j (from 1) on stage k of K reads max(0, j - 1 - (K - 1 - k) - D).
RC_GTEST_PROP(LateSteps, TheDelayRuleHoldsForEveryLengthAndDelay, ()) {
  const int stages = *rc::gen::inRange(1, 6), microbatches = *rc::gen::inRange(1, 12), delay = *rc::gen::inRange(0, 4);
  const Program program = lowered(one_lane(stages, microbatches), late(delay));
  RC_ASSERT(check(program).empty());
  for (int s = 0; s < stages; ++s) {
    int steps = 0;
    for (const Instruction& i : program.ranks[s]) {
      if (i.opcode == Opcode::optimizer_step) RC_ASSERT(i.version == ++steps);
      if (i.opcode == Opcode::forward || i.opcode == Opcode::input_gradient)
        RC_ASSERT(i.version == std::max(0, i.micro.value - (stages - 1 - s) - delay));
    }
    RC_ASSERT(steps == microbatches);
  }
}

TEST(LateSteps, StalenessCountsTheDelay) {
  EXPECT_EQ(staleness_of(lowered(one_lane(3, 12), late(2))), (std::vector<int>{4, 3, 2, 0}));
  EXPECT_EQ(staleness_of(lowered(one_lane(3, 12), late(0))), (std::vector<int>{2, 1, 0, 0}));
}

TEST(LateSteps, SeveralMicroBatchesMakeOneSumAndLeftoversAreDroppedOrTheirOwn) {
  const auto sums = [](const Program& program) {
    return std::ranges::count(program.ranks[1], Opcode::send_weight_gradient, &Instruction::opcode);
  };
  const Program dropped = lowered(one_lane(1, 5), late(1, 2));
  EXPECT_EQ(sums(dropped), 2);
  EXPECT_EQ(dropped.updates, 2);
  EXPECT_TRUE(check(dropped).empty());
  const Program kept = lowered(one_lane(1, 5), late(1, 2), {.leftover = RunPolicy::Leftover::partial});
  EXPECT_EQ(sums(kept), 3);
  EXPECT_EQ(kept.updates, 3);
  EXPECT_TRUE(check(kept).empty());
}

TEST(LateSteps, WeightGradientsInAnotherOrderThanInputGradientsAreRejected) {
  OneLane lane = one_lane(1, 3);
  std::swap(lane.schedule.ranks[1][0], lane.schedule.ranks[1][1]);
  EXPECT_NE(error_of([&] { lowered(lane, late(1)); }).find("another order than its I"), std::string::npos);
}

TEST(LateSteps, RanksThatWouldWaitForOneAnotherAreRejected) {
  // Each of two stages runs the other's W, but only after the op that waits for its own.
  OneLane lane = one_lane(2, 2);
  lane.placement.weight_gradient_ranks = {Rank(1), Rank(0)};
  lane.schedule.ranks.pop_back();
  for (int s = 0; s < 2; ++s)
    for (int i = 0; i < 2; ++i) lane.schedule.ranks[s].push_back(weight_gradient_op(1 - s, i));
  const Program program = lowered(lane, late(0));
  EXPECT_FALSE(check(program).empty());
  EXPECT_NE(error_of([&] { checked(program); }), "no error");
}

}  // namespace
}  // namespace sluice
