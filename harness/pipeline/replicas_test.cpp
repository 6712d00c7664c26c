#include "harness/pipeline/replicas.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

constexpr auto kGroups = PipelineReplicas::Layout::groups;
constexpr auto kPipelines = PipelineReplicas::Layout::pipelines;

// Stage k on device k.
Plan pipeline(int stages) {
  Plan plan;
  for (int s = 0; s < stages; ++s) plan.stages.push_back({.layers = {s}, .devices = {DeviceId(s)}});
  return plan;
}

std::vector<int> ranks(const Placement& placement, std::size_t stage) {
  std::vector<int> result;
  for (const Rank rank : placement.stages[stage]) result.push_back(rank.value);
  return result;
}

TEST(PipelineReplicasTest, GroupsLieTogetherAndPipelinesOneAfterTheOther) {
  for (const auto layout : {kGroups, kPipelines}) {
    const RankMap map = ranks_of(replicate(pipeline(2), 2, 3, {4, layout}));
    ASSERT_EQ(map.devices.size(), 8u);
    for (int r = 0; r < 8; ++r) EXPECT_EQ(map.devices[r], DeviceId(r));
    EXPECT_EQ(ranks(map.placement, 1), layout == kGroups ? (std::vector{4, 5, 6, 7}) : (std::vector{1, 3, 5, 7}));
    // Three micro-batches each.
    EXPECT_EQ(map.placement.replica_of, (std::vector<std::size_t>{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}));
  }
}

TEST(PipelineReplicasTest, EveryCopyRunsTheOneOrderOnItsOwnMicroBatches) {
  EXPECT_EQ(to_text(replicate(example_1f1b(2, 2), {2, kGroups})),
            "rank 0: 0F0 0F1 0B0 0B1\n"
            "rank 1: 0F2 0F3 0B2 0B3\n"
            "rank 2: 1F0 1B0 1F1 1B1\n"
            "rank 3: 1F2 1B2 1F3 1B3\n");
  EXPECT_EQ(to_text(replicate(example_1f1b(2, 2), {2, kPipelines})),
            "rank 0: 0F0 0F1 0B0 0B1\n"
            "rank 1: 1F0 1B0 1F1 1B1\n"
            "rank 2: 0F2 0F3 0B2 0B3\n"
            "rank 3: 1F2 1B2 1F3 1B3\n");
}

TEST(PipelineReplicasTest, TheCopiesCheckAndReduceOverTheirGroups) {
  for (const auto layout : {kGroups, kPipelines}) {
    const PipelineReplicas replicas{3, layout};
    const RankMap map = ranks_of(replicate(pipeline(4), 4, 5, replicas));
    const Program program = lower(replicate(example_1f1b(4, 5), replicas), chain(4), map.placement, WeightRule{});
    EXPECT_TRUE(check(program).empty());
    for (const auto& rank : program.ranks)
      EXPECT_EQ(std::ranges::count(rank, Opcode::reduce_gradients, &Instruction::opcode), 1);
    // Messages stay inside a replica.
    EXPECT_EQ(program.channels.size(), 3u * 2 * 3);
  }
}

TEST(PipelineReplicasTest, TwoDirectionsOfAPipelineStayTwoReplicasOfEveryCopy) {
  // Stage s on devices s and 1 - s, even micro-batches down, odd ones up.
  Plan both = pipeline(2);
  both.stages[0].devices = {DeviceId(0), DeviceId(1)};
  both.stages[1].devices = {DeviceId(1), DeviceId(0)};
  const RankMap map = ranks_of(replicate(both, 2, 2, {2, kPipelines}));
  EXPECT_EQ(map.placement.replica_of, (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(ranks(map.placement, 0), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(ranks(map.placement, 1), (std::vector{1, 0, 3, 2}));
}

TEST(PipelineReplicasTest, FiguresOfARankAreThoseOfItsPlaceInThePipeline) {
  EXPECT_EQ(replicate(std::vector{4, 3}, {2, kGroups}), (std::vector{4, 4, 3, 3}));
  EXPECT_EQ(replicate(std::vector{4, 3}, {2, kPipelines}), (std::vector{4, 3, 4, 3}));
}

TEST(PipelineReplicasTest, PlansThatReplicateTheirStagesThemselvesAreRejected) {
  Plan plan = pipeline(2);
  plan.stages[0].devices.push_back(DeviceId(2));
  EXPECT_EQ(error_of([&] {
              replicate(plan, 3, 4, {2, kGroups});
            }),
            "data_parallel: the plan replicates its stages by itself, each as often as it wants "
            "to; use one copy");
  EXPECT_EQ(replicate(plan, 3, 4, {}).stages[0].devices.size(), 2u);
  Plan shared = pipeline(1);
  shared.stages[0].tensor = 2;
  EXPECT_NE(error_of([&] { replicate(shared, 2, 4, {2, kGroups}); }), "no error");
}

}  // namespace
}  // namespace sluice
