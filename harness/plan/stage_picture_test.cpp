#include "harness/plan/stage_picture.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

std::string picture_of(std::vector<std::vector<int>> devices, const std::vector<std::pair<int, int>>& edges,
                       int width = 100, const std::vector<std::pair<int, int>>& imposed = {}) {
  Plan plan;
  std::vector<std::pair<StageId, StageId>> ids;
  for (const auto& stage : devices) {
    PlanStage& made = plan.stages.emplace_back();
    for (const int d : stage) made.devices.emplace_back(d);
  }
  for (const auto& [a, b] : edges) ids.push_back({StageId(a), StageId(b)});
  for (const auto& [a, b] : imposed) plan.imposed_edges.push_back({StageId(a), StageId(b)});
  return stage_picture(plan, stage_graph(static_cast<int>(devices.size()), ids, "test"), width);
}

TEST(StagePictureTest, DevicesAreListedInRuns) {
  const auto text = [](std::vector<int> devices) {
    std::vector<DeviceId> ids;
    for (const int d : devices) ids.emplace_back(d);
    return device_list(ids);
  };
  EXPECT_EQ(text({3}), "3");
  EXPECT_EQ(text({3, 4}), "3,4");
  EXPECT_EQ(text({0, 1, 2, 5, 7, 8, 9}), "0-2,5,7-9");
}

TEST(StagePictureTest, BranchesThatJoin) {
  EXPECT_EQ(picture_of({{0}, {1}, {2}, {3}, {4, 5, 6}}, {{0, 1}, {2, 3}, {1, 4}, {3, 4}}),
            "  [0: 0]-----[1: 1]-----[4: 4-6]\n"
            "  [2: 2]-----[3: 3]---> 4\n");
}

TEST(StagePictureTest, BranchesThatFork) {
  EXPECT_EQ(picture_of({{0}, {1}, {2}, {3}}, {{0, 1}, {0, 2}, {1, 3}, {2, 3}}),
            "  [0: 0]---[1: 1]---[3: 3]\n"
            "     0 --> [2: 2]-> 3\n"
            "  also 0 --> 2\n");
}

TEST(StagePictureTest, LongRowsAreBrokenAndImposedEdgesDotted) {
  EXPECT_EQ(picture_of({{0}, {1}, {2}}, {{0, 1}, {1, 2}}, 30, {{1, 2}}),
            "  [0: 0]---[1: 1]...\n"
            "  [2: 2]\n");
}

TEST(StagePictureTest, DepthIsTheLongestPath) {
  EXPECT_EQ(depth(chain(5)), 5);
  EXPECT_EQ(depth(stage_graph(3, {{StageId(0), StageId(2)}, {StageId(1), StageId(2)}}, "")), 2);
}

}  // namespace
}  // namespace sluice
