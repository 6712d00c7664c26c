#include "harness/plan/replicated_schedule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/program/check_program.h"
#include "harness/program/check_schedule.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

Placement placement_of(const std::vector<int>& replicas) {
  Placement placement;
  int rank = 0;
  for (const int r : replicas) {
    auto& ranks = placement.stages.emplace_back();
    for (int i = 0; i < r; ++i) ranks.emplace_back(rank++);
  }
  return placement;
}

ScheduleProblem problem_of(const std::vector<int>& replicas, int microbatches) {
  const Placement placement = placement_of(replicas);
  return {chain(static_cast<int>(replicas.size())), placement, placement.rank_count(), microbatches};
}

TEST(ReplicatedScheduleTest, TwoReplicasBeforeOneStage) {  // as drawn in the header
  const ScheduleProblem problem = problem_of({2, 1}, 4);
  EXPECT_EQ(round_robin_in_flight(problem.placement), (std::vector{2, 1}));
  EXPECT_EQ(to_text(replicated_one_f_one_b(problem, {2, 1}, "test")),
            "rank 0: 0F0 0F2 0B0 0B2\n"
            "rank 1: 0F1 0F3 0B1 0B3\n"
            "rank 2: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3\n");
}

TEST(ReplicatedScheduleTest, TheInputStagesShareIsRoundedUp) {
  // 7 devices, 2 of them on the input stage: 4 mini-batches in flight on each.
  EXPECT_EQ(round_robin_in_flight(placement_of({2, 3, 2})), (std::vector{4, 2, 1}));
}

TEST(ReplicatedScheduleTest, MoreReplicasThanMicroBatchesAreRejected) {
  EXPECT_EQ(error_of([] {
              replicated_one_f_one_b(problem_of({1, 3}, 2), {4, 1}, "test");
            }),
            "test: stage 1 has 3 replicas for 2 micro-batches; give every replica at least one");
}

TEST(ReplicatedScheduleTest, ARankWithTwoStagesIsRejected) {
  ScheduleProblem problem = problem_of({1, 1}, 2);
  problem.placement.stages[1] = problem.placement.stages[0];
  problem.ranks = 1;
  EXPECT_EQ(error_of([&] {
              replicated_one_f_one_b(problem, {2, 1}, "test");
            }),
            "test: a rank holds two stages; this order is for one stage a rank");
}

TEST(ReplicatedScheduleTest, OnlyChainsWithoutReplicasHaveATheory) {
  EXPECT_TRUE(flushed_chain_theory(problem_of({1, 1}, 4), {2, 1}).bubble_ratio.has_value());
  EXPECT_FALSE(flushed_chain_theory(problem_of({2, 1}, 4), {2, 1}).bubble_ratio.has_value());
  ScheduleProblem branches = problem_of({1, 1, 1}, 4);
  branches.graph = stage_graph(3, {{StageId(0), StageId(2)}, {StageId(1), StageId(2)}}, "test");
  EXPECT_FALSE(flushed_chain_theory(branches, {3, 2, 1}).bubble_ratio.has_value());
}

RC_GTEST_PROP(ReplicatedScheduleTest, ChecksAndLowers, ()) {
  std::vector<int> replicas(*rc::gen::inRange<std::size_t>(1, 5));
  int most = 1;
  for (int& r : replicas) most = std::max(most, r = *rc::gen::inRange(1, 4));
  const ScheduleProblem problem = problem_of(replicas, most + *rc::gen::inRange(0, 10));
  const Schedule schedule = replicated_one_f_one_b(problem, round_robin_in_flight(problem.placement), "test");
  RC_ASSERT(check(schedule, problem.graph, problem.placement).empty());
  const Program program = lower(schedule, problem.graph, problem.placement, WeightRule{});
  RC_ASSERT(check(program).empty());
}

}  // namespace
}  // namespace sluice
