#include "harness/pipeline/topological_order.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

// 3 feeds 1 and 2, which feed 0.
TEST(TopologicalOrderTest, StagesComeAfterAllThatFeedThem) {
  const StageGraph graph = stage_graph(
      4, {{StageId(3), StageId(1)}, {StageId(3), StageId(2)}, {StageId(1), StageId(0)}, {StageId(2), StageId(0)}},
      "test");
  EXPECT_EQ(topological_order(graph), (std::vector{StageId(3), StageId(1), StageId(2), StageId(0)}));
}

TEST(TopologicalOrderTest, StagesOfACycleAndThoseAfterItAreLeftOut) {
  StageGraph graph = chain(4);  // 0 -> 1 -> 2 -> 3, and 2 -> 1
  graph.successors[2].push_back(StageId(1));
  graph.predecessors[1].push_back(StageId(2));
  EXPECT_EQ(topological_order(graph), (std::vector{StageId(0)}));
}

}  // namespace
}  // namespace sluice
