#include "harness/program/lowering.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "harness/base/expect_error.h"
#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"

namespace sluice {
namespace {

bool is_forward_or_backward(const Instruction& i) {
  return i.opcode == Opcode::forward || i.opcode == Opcode::backward;
}

const WeightRule kPipeDream{.update = WeightRule::Update::every_backward};

// One line an instruction; with versions: "0F2 @1" reads version 1, "step 0 =2" makes version 2.
std::string text_of(const std::vector<Instruction>& rank, bool versions) {
  std::string text;
  for (const Instruction& i : rank) {
    text += to_text(i);
    if (versions && is_compute(i.opcode)) text += " @" + std::to_string(i.version);
    if (versions && i.opcode == Opcode::optimizer_step) text += " =" + std::to_string(i.version);
    text += "\n";
  }
  return text;
}

TEST(LowerTest, OneForwardOneBackwardOnTwoRanks) {
  const Program program = lower(example_1f1b(2, 3), chain(2), one_stage_per_rank(2), WeightRule{});
  EXPECT_EQ(program.updates, 1);
  EXPECT_EQ(text_of(program.ranks[0], false),
            "0F0\n"
            "send_activation 0->1 0\n"
            "0F1\n"
            "send_activation 0->1 1\n"
            "receive_gradient 1->0 0\n"
            "0B0\n"
            "0F2\n"
            "send_activation 0->1 2\n"
            "receive_gradient 1->0 1\n"
            "0B1\n"
            "receive_gradient 1->0 2\n"
            "0B2\n"
            "step 0\n");
  EXPECT_EQ(text_of(program.ranks[1], false),
            "receive_activation 0->1 0\n"
            "1F0\n"
            "1B0\n"
            "send_gradient 1->0 0\n"
            "receive_activation 0->1 1\n"
            "1F1\n"
            "1B1\n"
            "send_gradient 1->0 1\n"
            "receive_activation 0->1 2\n"
            "1F2\n"
            "1B2\n"
            "send_gradient 1->0 2\n"
            "step 1\n");
  ASSERT_EQ(program.channels.size(), 2u);
  EXPECT_EQ(program.channels[0].messages, 3);
}

TEST(LowerTest, PipeDreamWritesVersionsIntoEveryInstruction) {
  const Program program = lower(example_1f1b(2, 3), chain(2), one_stage_per_rank(2), kPipeDream);
  EXPECT_EQ(program.updates, 3);
  EXPECT_EQ(text_of(program.ranks[0], true),
            "0F0 @0\n"
            "send_activation 0->1 0\n"
            "0F1 @0\n"
            "send_activation 0->1 1\n"
            "receive_gradient 1->0 0\n"
            "0B0 @0\n"
            "step 0 =1\n"
            "0F2 @1\n"
            "send_activation 0->1 2\n"
            "receive_gradient 1->0 1\n"
            "0B1 @0\n"
            "step 0 =2\n"
            "receive_gradient 1->0 2\n"
            "0B2 @1\n"
            "step 0 =3\n");
  EXPECT_EQ(text_of(program.ranks[1], true),
            "receive_activation 0->1 0\n"
            "1F0 @0\n"
            "1B0 @0\n"
            "send_gradient 1->0 0\n"
            "step 1 =1\n"
            "receive_activation 0->1 1\n"
            "1F1 @1\n"
            "1B1 @1\n"
            "send_gradient 1->0 1\n"
            "step 1 =2\n"
            "receive_activation 0->1 2\n"
            "1F2 @2\n"
            "1B2 @2\n"
            "send_gradient 1->0 2\n"
            "step 1 =3\n");
}

TEST(LowerTest, AMessageThatComesEarlyIsTakenEarly) {
  // V placement: stages 0 and 3 on rank 0, 1 and 2 on rank 1. Activations 0->1 and gradients 3->2
  // share the channel 0 -> 1; rank 1 needs the gradient before the activation sent ahead of it.
  const Schedule schedule = parse_schedule(
      "rank 0: 0F0 0F1 3F0 3B0 0B0 3F1 3B1 0B1\n"
      "rank 1: 1F0 2F0 2B0 1B0 1F1 2F1 2B1 1B1\n");
  const Placement v{{{Rank(0)}, {Rank(1)}, {Rank(1)}, {Rank(0)}}};
  const Program program = lower(schedule, chain(4), v, WeightRule{});
  EXPECT_EQ(text_of(program.ranks[1], false),
            "receive_activation 0->1 0\n"
            "1F0\n"
            "2F0\n"
            "send_activation 2->3 0\n"
            "receive_activation 0->1 1\n"
            "receive_gradient 3->2 0\n"
            "2B0\n"
            "1B0\n"
            "send_gradient 1->0 0\n"
            "1F1\n"
            "2F1\n"
            "send_activation 2->3 1\n"
            "receive_gradient 3->2 1\n"
            "2B1\n"
            "step 2\n"
            "1B1\n"
            "send_gradient 1->0 1\n"
            "step 1\n");
  EXPECT_TRUE(check(program).empty());
}

TEST(LowerTest, ReplicasReduceBeforeTheyStep) {
  const Schedule schedule = parse_schedule("rank 0: 0F0 0B0 0F2 0B2\nrank 1: 0F1 0B1\n");
  const Program program = lower(schedule, chain(1), {{{Rank(0), Rank(1)}}}, WeightRule{});
  EXPECT_EQ(text_of(program.ranks[0], false), "0F0\n0B0\n0F2\n0B2\nreduce 0\nstep 0\n");
  EXPECT_EQ(text_of(program.ranks[1], false), "0F1\n0B1\nreduce 0\nstep 0\n");
  EXPECT_TRUE(program.channels.empty());
}

TEST(LowerTest, AllReducesStandAtTheEndWhereNoRankNeedsTheRankThatWaits) {
  // Rank 1's last backward of stage 0 needs rank 0's 1B1, which comes after rank 0's last of it.
  const Schedule schedule = parse_schedule(
      "rank 0: 0F0 1F0 1B0 0B0 1F1 1B1\n"
      "rank 1: 0F1 0B1\n");
  const Program program = lower(schedule, chain(2), {{{Rank(0), Rank(1)}, {Rank(0)}}}, WeightRule{});
  EXPECT_TRUE(check(program).empty());
  EXPECT_EQ(text_of(program.ranks[0], false),
            "0F0\n1F0\n1B0\n0B0\nreceive_activation 0->1 1\n1F1\n1B1\nsend_gradient 1->0 1\n"
            "step 1\nreduce 0\nstep 0\n");
}

TEST(LowerTest, ASplitBackwardStepsAfterTheLastWeightGradient) {
  const Schedule schedule = parse_schedule("rank 0: 0F0 0I0 0F1 0I1 0W1 0W0\n");
  const Program program = lower(schedule, chain(1), one_stage_per_rank(1), WeightRule{});
  EXPECT_EQ(text_of(program.ranks[0], false), "0F0\n0I0\n0F1\n0I1\n0W1\n0W0\nstep 0\n");
}

TEST(LowerTest, AnOverlappedPairReceivesFirstAndSendsLast) {
  const Program program = lower(parse_schedule("rank 0: 0F0 0F1 0F2 0B0 0B1 0B2\n"
                                               "rank 1: 1F0 (1F1;1B0) (1F2;1B1) 1B2\n"
                                               "rank 2: 2F0 2B0 2F1 2B1 2F2 2B2\n"),
                                chain(3), one_stage_per_rank(3), WeightRule{});
  EXPECT_TRUE(check(program).empty());
  EXPECT_EQ(text_of(program.ranks[1], false),
            "receive_activation 0->1 0\n"
            "1F0\n"
            "send_activation 1->2 0\n"
            "receive_activation 0->1 1\n"
            "receive_gradient 2->1 0\n"
            "1F1\n"
            "1B0\n"
            "send_activation 1->2 1\n"
            "send_gradient 1->0 0\n"
            "receive_activation 0->1 2\n"
            "receive_gradient 2->1 1\n"
            "1F2\n"
            "1B1\n"
            "send_activation 1->2 2\n"
            "send_gradient 1->0 1\n"
            "receive_gradient 2->1 2\n"
            "1B2\n"
            "send_gradient 1->0 2\n"
            "step 1\n");
}

TEST(LowerTest, AccumulationUpdatesOnceInSeveralBackwards) {
  WeightRule rule = kPipeDream;
  rule.accumulate = 2;
  const Schedule schedule = parse_schedule("rank 0: 0F0 0B0 0F1 0B1 0F2 0B2 0F3 0B3\n");
  const Program program = lower(schedule, chain(1), one_stage_per_rank(1), rule);
  EXPECT_EQ(program.updates, 2);
  EXPECT_EQ(text_of(program.ranks[0], true),
            "0F0 @0\n0B0 @0\n0F1 @0\n0B1 @0\nstep 0 =1\n0F2 @1\n0B2 @1\n0F3 @1\n0B3 @1\nstep 0 "
            "=2\n");
}

TEST(LowerTest, SchedulesThatDoNotCheckAreRejected) {
  EXPECT_EQ(error_of([] { lower(parse_schedule("rank 0: 0B0 0F0\n"), chain(1), one_stage_per_rank(1), WeightRule{}); }),
            "schedule: rank 0: 0B0 comes before 0F0, which it needs");
}

TEST(LowerTest, ReplicasOfAnAsynchronousStageReduceBeforeEveryStep) {
  const Program program = lower(parse_schedule("rank 0: 0F0 0B0 0F2 0B2\nrank 1: 0F1 0B1 0F3 0B3\n"), chain(1),
                                {{{Rank(0), Rank(1)}}}, kPipeDream);
  EXPECT_EQ(program.updates, 2);
  EXPECT_EQ(program.microbatches_per_update, 2);
  EXPECT_EQ(text_of(program.ranks[1], true),
            "0F1 @0\n0B1 @0\nreduce 0\nstep 0 =1\n0F3 @1\n0B3 @1\nreduce 0\nstep 0 =2\n");
}

TEST(LowerTest, AnOddBatchForReplicasIsRejected) {
  EXPECT_EQ(error_of([] {
              lower(parse_schedule("rank 0: 0F0 0B0 0F2 0B2\nrank 1: 0F1 0B1\n"), chain(1), {{{Rank(0), Rank(1)}}},
                    kPipeDream);
            }),
            "schedule: 3 micro-batches, 2 an update, are no whole number of the steps of stage 0, "
            "which take 2 each; choose micro-batches that are a multiple of 2");
}

// Stages of two and of three replicas: an update of the whole is six micro-batches, three steps of one, two of the
// other.
TEST(LowerTest, ReplicasNeedNotDivideOneAnother) {
  const std::vector<std::vector<Rank>> placement = {{Rank(0), Rank(1)}, {Rank(2), Rank(3), Rank(4)}};
  const Schedule schedule = parse_schedule(
      "rank 0: 0F0 0F2 0B0 0F4 0B2 0B4\nrank 1: 0F1 0F3 0B1 0F5 0B3 0B5\n"
      "rank 2: 1F0 1B0 1F3 1B3\nrank 3: 1F1 1B1 1F4 1B4\nrank 4: 1F2 1B2 1F5 1B5\n");
  const Program program = lower(schedule, chain(2), {placement}, kPipeDream);
  EXPECT_EQ(program.microbatches_per_update, 6);
  EXPECT_EQ(program.updates, 1);
  EXPECT_EQ(std::ranges::count(program.ranks[0], Opcode::optimizer_step, &Instruction::opcode), 3);
  EXPECT_EQ(std::ranges::count(program.ranks[2], Opcode::optimizer_step, &Instruction::opcode), 2);
}

TEST(LowerTest, ReplicasThatWouldWaitForOneAnotherAreRejected) {
  // Rank 0 reduces after its batch 0 before it forwards batch 2; rank 1 wants batch 3's gradient of
  // rank 2 first, which comes after batch 2.
  const std::string error = error_of([] {
    checked(lower(parse_schedule("rank 0: 0F0 0B0 0F2 0B2\nrank 1: 0F1 0F3 0B3 0B1\n"
                                 "rank 2: 1F0 1B0 1F1 1F2 1B2 1F3 1B3 1B1\n"),
                  chain(2), {{{Rank(0), Rank(1)}, {Rank(2)}}}, kPipeDream));
  });
  EXPECT_NE(error.find("ranks wait for one another in a cycle: rank 0 at reduce 0 for rank 1"), std::string::npos)
      << error;
}

TEST(LowerTest, LeftoverMicroBatchesAreDroppedOrStepAlone) {
  const Schedule schedule = parse_schedule("rank 0: 0F0 0B0 0F1 0B1 0F2 0B2\n");
  WeightRule rule = kPipeDream;
  rule.accumulate = 2;
  EXPECT_EQ(text_of(lower(schedule, chain(1), one_stage_per_rank(1), rule).ranks[0], true),
            "0F0 @0\n0B0 @0\n0F1 @0\n0B1 @0\nstep 0 =1\n0F2 @1\n0B2 @1\n");
  const Program program =
      lower(schedule, chain(1), one_stage_per_rank(1), rule, {}, {.leftover = RunPolicy::Leftover::partial});
  EXPECT_EQ(program.updates, 2);
  EXPECT_EQ(text_of(program.ranks[0], true), "0F0 @0\n0B0 @0\n0F1 @0\n0B1 @0\nstep 0 =1\n0F2 @1\n0B2 @1\nstep 0 =2\n");
}

TEST(LowerTest, RecomputationStandsBeforeTheBackward) {
  WeightRule rule = kPipeDream;
  rule.backward = WeightRule::Backward::newest;
  rule.recompute = WeightRule::Recompute::newest;
  const Schedule schedule = parse_schedule("rank 0: 0F0 0F1 0B0 0B1\n");
  EXPECT_EQ(text_of(lower(schedule, chain(1), one_stage_per_rank(1), rule).ranks[0], true),
            "0F0 @0\n0F1 @0\n0R0 @0\n0B0 @0\nstep 0 =1\n0R1 @1\n0B1 @1\nstep 0 =2\n");
  rule.recompute = WeightRule::Recompute::forward_weights;
  EXPECT_EQ(text_of(lower(schedule, chain(1), one_stage_per_rank(1), rule).ranks[0], true),
            "0F0 @0\n0F1 @0\n0R0 @0\n0B0 @0\nstep 0 =1\n0R1 @0\n0B1 @1\nstep 0 =2\n");
}

// PipeDream-2BW: update b reads version max(b - 1, 0), which is the newest or the one before
// exactly when an update has at least K - 1 micro-batches.
TEST(VersionsTest, DoubleBufferingNeedsStagesMinusOneMicroBatches) {
  for (int stages = 2; stages <= 8; ++stages)
    for (int m = 1; m <= stages + 1; ++m) {
      WeightRule rule = kPipeDream;
      rule.forward = WeightRule::Forward::previous;
      rule.accumulate = m;
      const auto program = [&] {
        return lower(example_1f1b(stages, 5 * m), chain(stages), one_stage_per_rank(stages), rule);
      };
      if (m < stages - 1) {
        EXPECT_NE(error_of([&] { program(); }), "no error") << stages << " " << m;
        continue;
      }
      const Program lowered = program();
      for (const auto& rank : lowered.ranks)
        for (const Instruction& i : rank)
          if (is_forward_or_backward(i)) {
            EXPECT_EQ(i.version, std::max(0, i.micro.value / m - 1)) << to_text(i);
          }
    }
}

TEST(VersionsTest, PredictionsStartFromTheNewestAndAreSharedAsTheRuleSays) {
  WeightRule rule = kPipeDream;
  rule.backward = WeightRule::Backward::newest;
  rule.accumulate = rule.microbatches_per_prediction = 2;
  rule.forward_horizon = {2, 1};
  rule.backward_horizon = {1, 0};
  const Program program = lower(example_1f1b(2, 6), chain(2), one_stage_per_rank(2), rule);
  std::vector<std::string> reads;
  for (const Instruction& i : program.ranks[0])
    if (is_forward_or_backward(i))
      reads.push_back(to_text(i) + " " + std::to_string(i.version) + "+" + std::to_string(i.horizon) + " #" +
                      std::to_string(i.prediction));
  // F0 F1 share prediction 0; F2 is the bellwether of the next update, before any step.
  EXPECT_EQ(reads, (std::vector<std::string>{"0F0 0+2 #0", "0F1 0+2 #0", "0B0 0+1 #3", "0F2 0+2 #1", "0B1 0+1 #3",
                                             "0F3 0+2 #1", "0B2 1+1 #4", "0F4 1+2 #2", "0B3 1+1 #4", "0F5 1+2 #2",
                                             "0B4 2+1 #5", "0B5 2+1 #5"}));
  EXPECT_EQ(program.predictions, (std::vector<int>{6, 3}));
}

// With K stages and 1-based batch j, stage k's forward reads the version of batch j - K + k.
TEST(VersionsTest, WeightStashingFollowsTheClosedForm) {
  for (int stages = 1; stages <= 5; ++stages) {
    const int n = 3 * stages;
    const Program program = lower(example_1f1b(stages, n), chain(stages), one_stage_per_rank(stages), kPipeDream);
    for (int k = 0; k < stages; ++k)
      for (const Instruction& i : program.ranks[k])
        if (is_forward_or_backward(i)) {
          EXPECT_EQ(i.version, std::max(0, i.micro.value + 1 - stages + k)) << to_text(i);
        }
  }
}

TEST(VersionsTest, VerticalSyncReadsTheInputStagesVersionEverywhere) {
  WeightRule rule = kPipeDream;
  rule.forward = WeightRule::Forward::vertical_sync;
  for (int stages = 1; stages <= 5; ++stages) {
    const Program program = lower(example_1f1b(stages, 12), chain(stages), one_stage_per_rank(stages), rule);
    for (const auto& rank : program.ranks)
      for (const Instruction& i : rank)
        if (is_forward_or_backward(i)) {
          EXPECT_EQ(i.version, std::max(0, i.micro.value + 1 - stages)) << to_text(i);
        }
  }
}

TEST(VersionsTest, VerticalSyncOfSeveralInputStagesIsOneVersion) {
  // An encoder (0, 1) and a decoder whose first stage (2) only reads data.
  WeightRule rule = kPipeDream;
  rule.forward = WeightRule::Forward::vertical_sync;
  const StageGraph graph =
      stage_graph(4, {{StageId(0), StageId(1)}, {StageId(1), StageId(3)}, {StageId(2), StageId(3)}}, "test");
  const Program program = lower(example_1f1b(4, 12), graph, one_stage_per_rank(4), rule);
  for (const auto& rank : program.ranks)
    for (const Instruction& i : rank)
      if (is_forward_or_backward(i)) {
        EXPECT_EQ(i.version, std::max(0, i.micro.value - 3)) << to_text(i);
      }
}

TEST(VersionsTest, NaiveBackwardReadsTheNewest) {
  WeightRule rule = kPipeDream;
  rule.backward = WeightRule::Backward::newest;
  const Program program = lower(example_1f1b(3, 9), chain(3), one_stage_per_rank(3), rule);
  for (const auto& rank : program.ranks)
    for (const Instruction& i : rank)
      if (i.opcode == Opcode::backward) {
        EXPECT_EQ(i.version, i.micro.value) << to_text(i);
      }
}

RC_GTEST_PROP(LowerTest, BothEndsOfEveryChannelAgree, (unsigned seed)) {
  const ExampleProblem p = random_problem(seed, true);
  RC_ASSERT(check(lower(p.schedule, p.graph, p.placement, WeightRule{})).empty());
}

RC_GTEST_PROP(LowerTest, AsynchronousProgramsCheckUnderEveryRule, (unsigned seed)) {
  const ExampleProblem p = random_problem(seed, false);
  WeightRule rule = kPipeDream;
  rule.forward = *rc::gen::element(WeightRule::Forward::newest, WeightRule::Forward::vertical_sync);
  rule.backward = *rc::gen::element(WeightRule::Backward::same_as_forward, WeightRule::Backward::newest);
  rule.accumulate = *rc::gen::inRange(1, 4);
  const Program program = lower(p.schedule, p.graph, p.placement, rule);
  RC_ASSERT(check(program).empty());
  RC_ASSERT(program.updates == p.schedule.microbatches / rule.accumulate);
}

RC_GTEST_PROP(LowerTest, EveryValueThatChangesRanksIsSentOnce, (unsigned seed)) {
  const ExampleProblem p = random_problem(seed, true);
  const Program program = lower(p.schedule, p.graph, p.placement, WeightRule{});
  std::size_t expected = 0;
  for (std::size_t s = 0; s < p.graph.size(); ++s)
    for (const StageId t : p.graph.successors[s])
      for (int m = 0; m < p.schedule.microbatches; ++m)
        if (p.placement.rank_of(StageId(s), Micro(m)) != p.placement.rank_of(t, Micro(m)))
          expected += 2;  // the activation and its gradient
  std::set<std::string> sent;
  std::size_t sends = 0;
  for (const auto& rank : program.ranks)
    for (const Instruction& i : rank)
      if (i.opcode == Opcode::send_activation || i.opcode == Opcode::send_gradient) {
        ++sends;
        sent.insert(to_text(i));
      }
  RC_ASSERT(sends == expected);
  RC_ASSERT(sent.size() == expected);
}

}  // namespace
}  // namespace sluice
