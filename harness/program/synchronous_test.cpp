// What lowering adds to a flushing program besides messages along edges: a barrier after the steps,
// recomputation, and weight gradients on a rank of their own.
#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/program/check_program.h"
#include "harness/program/check_schedule.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

std::string text_with_checkpoints(const std::vector<Instruction>& instructions) {
  std::string text;
  for (const Instruction& i : instructions) text += to_text(i) + (i.checkpoint ? " (checkpoint)\n" : "\n");
  return text;
}

constexpr RunPolicy kBarrier{.step_barrier = true};

TEST(StepBarrierTest, EveryRankReportsToRankZeroAndWaitsForIt) {
  const Program program = lower(parse_schedule("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\nrank 2: 2F0 2B0\n"), chain(3),
                                one_stage_per_rank(3), {}, {}, kBarrier);
  EXPECT_EQ(text_with_checkpoints(program.ranks[0]),
            "0F0\nsend_activation 0->1 0\nreceive_gradient 1->0 0\n0B0\nstep 0\n"
            "receive_stepped\nreceive_stepped\nsend_stepped\nsend_stepped\n");
  EXPECT_EQ(text_with_checkpoints(program.ranks[2]),
            "receive_activation 1->2 0\n2F0\n2B0\nsend_gradient 2->1 0\nstep 2\n"
            "send_stepped\nreceive_stepped\n");
  EXPECT_TRUE(check(program).empty());
}

TEST(StepBarrierTest, OneRankHasNobodyToWaitFor) {
  const Program program = lower(parse_schedule("rank 0: 0F0 0B0\n"), chain(1), one_stage_per_rank(1), {}, {}, kBarrier);
  EXPECT_EQ(text_with_checkpoints(program.ranks[0]), "0F0\n0B0\nstep 0\n");
}

TEST(StepBarrierTest, ReplicasReduceBeforeIt) {
  const Placement both{{{Rank(0), Rank(1)}}};
  const Program program = lower(parse_schedule("rank 0: 0F0 0B0\nrank 1: 0F1 0B1\n"), chain(1), both, {}, {}, kBarrier);
  EXPECT_EQ(text_with_checkpoints(program.ranks[1]), "0F1\n0B1\nreduce 0\nstep 0\nsend_stepped\nreceive_stepped\n");
  EXPECT_TRUE(check(program).empty());
}

TEST(StepBarrierTest, ARankThatDoesNotReportIsFound) {
  Program program = lower(example_1f1b(2, 3), chain(2), one_stage_per_rank(2), {}, {}, kBarrier);
  std::erase_if(program.ranks[1], [](const Instruction& i) { return i.opcode == Opcode::send_stepped; });
  const auto found = check(program);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].kind, Violation::Kind::deadlock);
}

TEST(StepBarrierTest, UpdatesWithoutAFlushHaveNone) {
  const WeightRule rule{.update = WeightRule::Update::every_backward};
  const std::string error =
      error_of([&] { lower(example_1f1b(2, 3), chain(2), one_stage_per_rank(2), rule, {}, kBarrier); });
  EXPECT_NE(error.find("step barrier"), std::string::npos) << error;
}

// Before the wait for the gradient: it needs nothing from other ranks.
TEST(RecomputeTest, StandsBeforeTheGradientIsReceived) {
  WeightRule rule;
  rule.recompute = WeightRule::Recompute::forward_weights;
  const Program program = lower(parse_schedule("rank 0: 0F0 0F1 0B1 0B0\nrank 1: 1F0 1F1 1B1 1B0\n"), chain(2),
                                one_stage_per_rank(2), rule);
  EXPECT_EQ(text_with_checkpoints(program.ranks[0]),
            "0F0 (checkpoint)\nsend_activation 0->1 0\n0F1 (checkpoint)\nsend_activation 0->1 1\n"
            "0R1\nreceive_gradient 1->0 1\n0B1\n0R0\nreceive_gradient 1->0 0\n0B0\nstep 0\n");
  EXPECT_TRUE(check(program).empty());
}

// GPipe: the activations of the last micro-batch are still there.
TEST(RecomputeTest, IsLeftOutWhereTheBackwardFollowsAtOnceIfTheRuleSaysSo) {
  WeightRule rule;
  rule.recompute = WeightRule::Recompute::forward_weights;
  rule.keep_if_next = true;
  const Program program = lower(parse_schedule("rank 0: 0F0 0F1 0B1 0B0\nrank 1: 1F0 1F1 1B1 1B0\n"), chain(2),
                                one_stage_per_rank(2), rule);
  EXPECT_EQ(text_with_checkpoints(program.ranks[1]),
            "receive_activation 0->1 0\n1F0 (checkpoint)\nreceive_activation 0->1 1\n1F1\n"
            "1B1\nsend_gradient 1->0 1\n1R0\n1B0\nsend_gradient 1->0 0\nstep 1\n");
  // In rank 0's list too: it idles between the two.
  EXPECT_EQ(std::ranges::count(program.ranks[0], Opcode::recompute, &Instruction::opcode), 1);
}

TEST(RecomputeTest, IsLeftOutForTheLastMicroBatchOfEveryStageIfTheRuleSaysSo) {
  WeightRule rule;
  rule.recompute = WeightRule::Recompute::forward_weights;
  rule.keep_last = true;
  const Schedule schedule = parse_schedule("rank 0: 0F0 0F1 0B1 0B0\nrank 1: 1F0 1F1 1B1 1B0\n");
  const Program program = lower(schedule, chain(2), one_stage_per_rank(2), rule);
  for (const auto& rank : program.ranks) {
    std::vector<int> recomputed, kept;
    for (const Instruction& i : rank) {
      if (i.opcode == Opcode::recompute) recomputed.push_back(i.micro.value);
      if (i.opcode == Opcode::forward && !i.checkpoint) kept.push_back(i.micro.value);
    }
    EXPECT_EQ(recomputed, std::vector<int>{0});
    EXPECT_EQ(kept, std::vector<int>{1});
  }
}

TEST(RecomputeTest, ASplitBackwardRecomputesBeforeItsInputGradientOnly) {
  WeightRule rule;
  rule.recompute = WeightRule::Recompute::forward_weights;
  const Program program =
      lower(parse_schedule("rank 0: 0F0 0F1 0I0 0W0 0I1 0W1\n"), chain(1), one_stage_per_rank(1), rule);
  EXPECT_EQ(text_with_checkpoints(program.ranks[0]),
            "0F0 (checkpoint)\n0F1 (checkpoint)\n0R0\n0I0\n0W0\n0R1\n0I1\n0W1\nstep 0\n");
}

// Two stages, the W of both on rank 2.
const char* const kTwoRanksAStage = "rank 0: 0F0 0F1 0I0 0I1\nrank 1: 1F0 1I0 1F1 1I1\nrank 2: 1W0 0W0 1W1 0W1\n";

Placement with_weight_gradient_rank() {
  Placement placement = one_stage_per_rank(2);
  placement.weight_gradient_ranks = {Rank(2), Rank(2)};
  return placement;
}

TEST(WeightGradientRankTest, GetsWhatWReadsAndSendsTheSumBack) {
  const Program program = lower(parse_schedule(kTwoRanksAStage), chain(2), with_weight_gradient_rank(), WeightRule{});
  EXPECT_EQ(text_with_checkpoints(program.ranks[0]),
            "0F0\nsend_activation 0->1 0\n0F1\nsend_activation 0->1 1\n"
            "receive_gradient 1->0 0\n0I0\nsend_stash 0 0\n"
            "receive_gradient 1->0 1\n0I1\nsend_stash 0 1\n"
            "receive_weight_gradient 0\nstep 0\n");
  EXPECT_EQ(text_with_checkpoints(program.ranks[2]),
            "receive_stash 1 0\n1W0\nreceive_stash 0 0\n0W0\nreceive_stash 1 1\n1W1\n"
            "send_weight_gradient 1\nreceive_stash 0 1\n0W1\nsend_weight_gradient 0\n");
  EXPECT_TRUE(check(program).empty());
}

TEST(WeightGradientRankTest, OpsOnTheWrongRankAreFound) {
  const auto found = check(parse_schedule("rank 0: 0F0 0I0 0W0\nrank 1: 1F0 1I0\nrank 2: 1W0\n"), chain(2),
                           with_weight_gradient_rank());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text, "rank 0: 0W0 belongs to rank 2");
}

TEST(WeightGradientRankTest, MustBeAnother) {
  Placement placement = one_stage_per_rank(1);
  placement.weight_gradient_ranks = {Rank(0)};
  EXPECT_EQ(check(parse_schedule("rank 0: 0F0 0I0 0W0\n"), chain(1), placement).at(0).text,
            "stage 0 runs its weight gradients on rank 0, which must be another than the one rank "
            "of the stage");
  placement.weight_gradient_ranks = {Rank(1), Rank(2)};
  EXPECT_EQ(check(parse_schedule("rank 0: 0F0 0I0\nrank 1: 0W0\nrank 2:\n"), chain(1), placement).at(0).text,
            "the placement has 2 ranks for weight gradients, and 1 stages");
}

TEST(WeightGradientRankTest, AProgramWhereWRunsBeforeItsMessageIsFound) {
  Program program = lower(parse_schedule(kTwoRanksAStage), chain(2), with_weight_gradient_rank(), WeightRule{});
  std::swap(program.ranks[2][0], program.ranks[2][1]);
  const auto found = check(program);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].text, "rank 2: 1W0 runs before what it reads has come from its stage");
}

TEST(WeightGradientRankTest, StepBarrierAndLanesGoTogether) {
  const Program program =
      lower(parse_schedule(kTwoRanksAStage), chain(2), with_weight_gradient_rank(), {}, {}, kBarrier);
  EXPECT_TRUE(check(program).empty());
  EXPECT_EQ(to_text(program.ranks[2].back()), "receive_stepped");
  EXPECT_EQ(to_text(program.ranks[0].back()), "send_stepped");
}

}  // namespace
}  // namespace sluice
