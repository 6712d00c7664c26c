// Several updates in a row: with a barrier after the steps an update costs its whole makespan,
// where ranks are free to go on only the longest of their own spans. By hand.
#include <gtest/gtest.h>

#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

std::vector<double> update_ends(const std::string& schedule, int ranks, bool barrier, double step_seconds = 0,
                                double latency = 0) {
  const Program program =
      lower(parse_schedule(schedule), chain(ranks), one_stage_per_rank(ranks), {}, {}, {.step_barrier = barrier});
  Costs costs = uniform_costs(ranks, 1, 1, 1);
  for (StageCost& stage : costs.stages) stage.update = Seconds(step_seconds);
  return simulate(program, costs, latency_cluster(ranks, Seconds(latency)), identity_devices(ranks), {.iterations = 3})
      .update_end;
}

// Zero bubble h2 (two ranks, four micro-batches), F = I = W = 1: rank 0 is busy from 0 to 12, rank
// 1 from 1 to 13.
const char* const kZeroBubble =
    "rank 0: 0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3\n"
    "rank 1: 1F0 1I0 1F1 1I1 1F2 1I2 1W0 1F3 1I3 1W1 1W2 1W3\n";

TEST(StepBarrierTest, ASkewedScheduleLosesItsSkewInEveryUpdate) {
  EXPECT_EQ(update_ends(kZeroBubble, 2, false), (std::vector<double>{13, 25, 37}));
  EXPECT_EQ(update_ends(kZeroBubble, 2, true), (std::vector<double>{13, 26, 39}));
}

TEST(StepBarrierTest, AScheduleWhoseFirstRankIsLastToEndLosesNothing) {
  // 1F1B, two ranks: rank 0 runs from 0 to 9 (m = 2, F + B = 3, one bubble of 3).
  const char* const one = "rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1B1\n";
  EXPECT_EQ(update_ends(one, 2, false), (std::vector<double>{9, 18, 27}));
  EXPECT_EQ(update_ends(one, 2, true), (std::vector<double>{9, 18, 27}));
}

TEST(StepBarrierTest, WaitsForTheStepsThemselves) {
  // Rank 1 of kZeroBubble ends at 13 and steps until 15; only then may rank 0 begin.
  EXPECT_EQ(update_ends(kZeroBubble, 2, true, 2), (std::vector<double>{15, 30, 45}));
  // Free: rank 0 begins its second update at 14, rank 1 at 15.
  EXPECT_EQ(update_ends(kZeroBubble, 2, false, 2), (std::vector<double>{15, 29, 43}));
}

TEST(StepBarrierTest, TakesAMessageThereAndOneBack) {
  // Three ranks without a message between the stages' ops would be independent; here one
  // micro-batch goes down and up: F at 0, 2, 4, B at 5-7, 8-10, 11-13, each hop taking 1. Rank 0
  // steps last, at 13, and all have reported by then: it goes on at once.
  const char* const one = "rank 0: 0F0 0B0\nrank 1: 1F0 1B0\nrank 2: 2F0 2B0\n";
  EXPECT_EQ(update_ends(one, 3, true, 0, 1), (std::vector<double>{13, 26, 39}));
  // kZeroBubble with a latency of 1: rank 1 runs until its last W ends at T, rank 0 hears it at
  // T + 1 and begins; every further update ends T + 1 later.
  const double first = update_ends(kZeroBubble, 2, true, 0, 1)[0];
  EXPECT_EQ(update_ends(kZeroBubble, 2, true, 0, 1), (std::vector<double>{first, 2 * first + 1, 3 * first + 2}));
}

// GPipe on two ranks, two micro-batches, F = 1, B = 2, the last first. Recomputing waits for
// nothing: rank 0 does it while rank 1 is at work.
//   rank 0  F0F1.... R1 until 3, B1 6-8, R0, B0 9-11
//   rank 1  F0F1 1-3, R1 3-4, B1 4-6, R0 6-7, B0 7-9
TEST(RecomputeTest, TakesAForwardAndHidesInTheBubble) {
  WeightRule rule;
  rule.recompute = WeightRule::Recompute::forward_weights;
  const Schedule schedule = parse_schedule("rank 0: 0F0 0F1 0B1 0B0\nrank 1: 1F0 1F1 1B1 1B0\n");
  const auto makespan = [&] {
    return simulate(lower(schedule, chain(2), one_stage_per_rank(2), rule), uniform_costs(2, 1, 1, 1),
                    latency_cluster(2, Seconds(0)), identity_devices(2))
        .bubble.makespan;
  };
  EXPECT_EQ(makespan(), 11);
  rule.keep_if_next = true;  // without 1R1
  EXPECT_EQ(makespan(), 10);
  rule.recompute = WeightRule::Recompute::none;
  EXPECT_EQ(makespan(), 9);
}

TEST(RecomputeTest, AKeptForwardHoldsItsWholeStash) {
  WeightRule rule;
  rule.recompute = WeightRule::Recompute::forward_weights;
  const StageMemory stage{.stash = Bytes(10), .weight_stash = Bytes(4), .input = Bytes(1)};
  const Schedule schedule = parse_schedule("rank 0: 0F0 0F1 0B1 0B0\nrank 1: 1F0 1F1 1B1 1B0\n");
  for (const bool keep : {false, true}) {
    rule.keep_if_next = keep;
    const auto ranks = memory(lower(schedule, chain(2), one_stage_per_rank(2), rule), {stage, stage});
    // One input and one stash at most, whoever makes the stash.
    EXPECT_EQ(ranks[0].peak.activations, Bytes(11));
    EXPECT_EQ(ranks[1].peak.activations, Bytes(11));
  }
}

TEST(WeightGradientRankTest, MemoryMovesWithTheStash) {
  Placement placement = one_stage_per_rank(1);
  placement.weight_gradient_ranks = {Rank(1)};
  const StageMemory stage{.weights = Bytes(100),
                          .gradients = Bytes(100),
                          .optimizer = Bytes(200),
                          .stash = Bytes(10),
                          .weight_stash = Bytes(4)};
  const auto ranks = memory(
      lower(parse_schedule("rank 0: 0F0 0I0 0F1 0I1\nrank 1: 0W0 0W1\n"), chain(1), placement, {}), {stage}, true);
  EXPECT_EQ(ranks[0].peak.total(), Bytes(100 + 100 + 200 + 10));
  EXPECT_EQ(ranks[1].peak.total(), Bytes(100 + 4));
  EXPECT_EQ(ranks[0].timeline.back().activations, Bytes(0));
  EXPECT_EQ(ranks[1].timeline.back().activations, Bytes(4));  // while the last W runs
}

TEST(WeightGradientRankTest, HoldsACopyOfTheSumOfTheGradientsWhileItIsSent) {
  Placement placement = one_stage_per_rank(1);
  placement.weight_gradient_ranks = {Rank(1)};
  const StageMemory stage{.weights = Bytes(100),
                          .gradients = Bytes(100),
                          .stash = Bytes(10),
                          .weight_stash = Bytes(4),
                          .temporaries = {.forward = Bytes(1)}};
  const MemoryPoint peak =
      memory(lower(parse_schedule("rank 0: 0F0 0I0 0F1 0I1\nrank 1: 0W0 0W1\n"), chain(1), placement, {}), {stage})[1]
          .peak;
  EXPECT_EQ(peak.gradients, Bytes(100));
  EXPECT_EQ(peak.total(), Bytes(200));  // no stash is left by then
}

TEST(WeightGradientRankTest, MessagesTakeTimeOfTheirOwnSizes) {
  // F 0-1, I 1-2, stash of 8 bytes at 4 a second, W 4-5, sum of 12 bytes, step at 8.
  Placement placement = one_stage_per_rank(1);
  placement.weight_gradient_ranks = {Rank(1)};
  const Program program = lower(parse_schedule("rank 0: 0F0 0I0\nrank 1: 0W0\n"), chain(1), placement, {});
  Costs costs = uniform_costs(1, 1, 1, 1);
  costs.stages[0].parameters = Bytes(12);
  costs.weight_stash = {Bytes(8)};
  Cluster cluster = latency_cluster(2, Seconds(0));
  cluster.all_to_all->bandwidth = 4;
  const Simulation s = simulate(program, costs, cluster, identity_devices(2));
  EXPECT_DOUBLE_EQ(s.bubble.makespan, 5);
  EXPECT_DOUBLE_EQ(s.update_end[0], 8);
}

}  // namespace
}  // namespace sluice
