#include "harness/pipeline/tensor_members.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

// Three layers in two stages on the groups 0 and 1.
Plan two_groups() {
  Plan plan;
  plan.stages = {{.layers = {0, 1}, .devices = {DeviceId(0)}}, {.layers = {2}, .devices = {DeviceId(1)}}};
  return plan;
}

std::string text_of(const Program& program) {
  std::string text;
  for (std::size_t r = 0; r < program.rank_count(); ++r) {
    text += std::to_string(r) + ":";
    for (const Instruction& i : program.ranks[r]) text += " " + to_text(i) + ",";
    text += "\n";
  }
  return text;
}

TEST(TensorMembers, OfAPlanAreAStageForEveryDevice) {
  const Plan plan = members_of(two_groups(), 2);
  ASSERT_EQ(plan.stages.size(), 4u);
  EXPECT_EQ(plan.stages[0].layers, (std::vector{0, 2}));
  EXPECT_EQ(plan.stages[1].layers, (std::vector{1, 3}));
  EXPECT_EQ(plan.stages[2].layers, (std::vector{4}));
  EXPECT_EQ(plan.stages[3].devices, (std::vector{DeviceId(3)}));
  EXPECT_EQ(plan.rank_order, (std::vector{DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)}));
}

TEST(TensorMembers, SendToTheMemberOfTheirOwnNumber) {
  const Schedule groups = parse_schedule(
      "rank 0: 0F0 0F1 0B0 0B1\n"
      "rank 1: 1F0 1B0 1F1 1B1\n");
  const Schedule members = members_of(groups, 2);
  const RankMap ranks = ranks_of(members_of(two_groups(), 2));
  const StageGraph graph = stage_graph(4, {{StageId(0), StageId(2)}, {StageId(1), StageId(3)}}, "test");
  Program program = lower(members, graph, ranks.placement, {});
  program.tensor = 2;
  EXPECT_EQ(check(program).size(), 0u);
  EXPECT_EQ(text_of(program),
            "0: 0F0, send_activation 0->2 0, 0F1, send_activation 0->2 1, receive_gradient 2->0 0, 0B0, "
            "receive_gradient 2->0 1, 0B1, step 0,\n"
            "1: 1F0, send_activation 1->3 0, 1F1, send_activation 1->3 1, receive_gradient 3->1 0, 1B0, "
            "receive_gradient 3->1 1, 1B1, step 1,\n"
            "2: receive_activation 0->2 0, 2F0, 2B0, send_gradient 2->0 0, receive_activation 0->2 1, 2F1, 2B1, "
            "send_gradient 2->0 1, step 2,\n"
            "3: receive_activation 1->3 0, 3F0, 3B0, send_gradient 3->1 0, receive_activation 1->3 1, 3F1, 3B1, "
            "send_gradient 3->1 1, step 3,\n");
  // The stages' own groups of one, then tensor-parallel ones.
  const std::vector<std::vector<Rank>> all = collective_groups(program);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[4], (std::vector{Rank(0), Rank(1)}));
  EXPECT_EQ(all[5], (std::vector{Rank(2), Rank(3)}));
  EXPECT_EQ(program.tensor_group_of(Rank(3)), 5);
}

TEST(TensorMembers, OfAPlanAreToldAsStagesWithADegree) {
  const Plan plan = shared_plan(members_of(two_groups(), 2), 2);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].layers, (std::vector{0, 1}));
  EXPECT_EQ(plan.stages[1].devices, (std::vector{DeviceId(2), DeviceId(3)}));
  EXPECT_EQ(plan.stages[1].tensor, 2);
}

TEST(TensorMembers, AreTheGroupsAgain) {
  Plan shared = two_groups();
  for (PlanStage& stage : shared.stages) {
    stage.tensor = 2;
    stage.devices = {DeviceId(2 * stage.devices[0].value), DeviceId(2 * stage.devices[0].value + 1)};
  }
  const Plan groups = groups_of(shared, 2);
  EXPECT_EQ(groups.stages[1].devices, two_groups().stages[1].devices);
  EXPECT_EQ(groups.stages[1].tensor, 1);
  shared.stages[0].tensor = 1;
  EXPECT_NE(error_of([&] { groups_of(shared, 2); }).find("stage 0 has tensor-parallel degree 1, another 2"),
            std::string::npos);
}

TEST(TensorMembers, ArePlansOfOneMicroBatchAtATime) {
  Plan grouped = two_groups();
  grouped.stages[0].microbatches_per_op = 2;
  EXPECT_NE(error_of([&] { members_of(grouped, 2); }).find("several micro-batches at once"), std::string::npos);
}

TEST(TensorMembers, OfFiguresRepeatThemForEveryDevice) {
  EXPECT_EQ(members_of(std::vector{4, 3}, 2), (std::vector{4, 4, 3, 3}));
}

}  // namespace
}  // namespace sluice
