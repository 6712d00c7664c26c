#include "harness/model/operator_graph.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

using Groups = std::vector<std::vector<int>>;

OperatorGraph graph_of(int forward, int backward, std::vector<std::pair<int, int>> edges) {
  OperatorGraph graph{.edges = std::move(edges)};
  for (int i = 0; i < forward + backward; ++i)
    graph.operators.push_back({.name = "n" + std::to_string(i), .accelerator = 1, .cpu = 1, .backward = i >= forward});
  return graph;
}

TEST(GroupOperatorsTest, WithoutColoursEveryOperatorIsItsOwn) {
  const OperatorGroups groups = group_operators(graph_of(3, 0, {{2, 1}, {1, 0}}));
  EXPECT_EQ(groups.members, (Groups{{2}, {1}, {0}}));
  EXPECT_EQ(groups.predecessors, (Groups{{}, {0}, {1}}));
}

TEST(GroupOperatorsTest, OneColourIsOneGroup) {
  OperatorGraph graph = graph_of(2, 2, {{0, 1}, {1, 2}, {2, 3}});
  graph.operators[0].color = graph.operators[3].color = 5;
  graph.operators[1].color = graph.operators[2].color = 2;
  EXPECT_EQ(group_operators(graph).members, (Groups{{0, 3}, {1, 2}}));
}

TEST(GroupOperatorsTest, ColoursInACycleAreJoined) {
  // 0 -> 1 -> 2 with 0 and 2 of one colour: the middle must stay with them.
  OperatorGraph graph = graph_of(4, 0, {{0, 1}, {1, 2}, {2, 3}});
  graph.operators[0].color = graph.operators[2].color = 1;
  EXPECT_EQ(group_operators(graph).members, (Groups{{0, 1, 2}, {3}}));
}

TEST(GroupOperatorsTest, AnIdleLeafJoinsItsOnlyNeighbour) {
  OperatorGraph graph = graph_of(3, 0, {{0, 1}, {1, 2}});
  graph.operators[0].accelerator = graph.operators[0].cpu = 0;
  EXPECT_EQ(group_operators(graph).members, (Groups{{0, 1}, {2}}));
  graph.operators[1].accelerator = graph.operators[1].cpu = 0;
  EXPECT_EQ(group_operators(graph).members, (Groups{{0, 1, 2}}));
}

TEST(GroupOperatorsTest, GradientsWithoutAForwardPartAreOrderedLikeTheirMirrorImage) {
  // Gradients 2 -> 3 -> 4 of operators 1, none and 0.
  OperatorGraph graph = graph_of(2, 3, {{0, 1}, {1, 2}, {2, 3}, {3, 4}});
  graph.operators[0].color = graph.operators[4].color = 0;
  graph.operators[1].color = graph.operators[2].color = 1;
  const OperatorGroups groups = group_operators(graph);
  EXPECT_EQ(groups.members, (Groups{{0, 4}, {3}, {1, 2}}));
}

TEST(GroupOperatorsTest, AGradientCannotFeedTheForwardPass) {
  EXPECT_EQ(error_of([] {
              group_operators(graph_of(1, 1, {{1, 0}}));
            }),
            "operators: backward operator 'n1' feeds forward operator 'n0'");
}

}  // namespace
}  // namespace sluice
