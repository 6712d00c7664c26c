#include "harness/plan/layer_groups.h"

#include <gtest/gtest.h>

#include "harness/plan/plan_test_support.h"

namespace sluice {
namespace {

TEST(LayerGroupsTest, AViewTravelsWithTheLayerBefore) {
  CostGraph costs = chain_costs({3, 0, 6}, {5, 0, 7}, {10, 11, 12});
  costs.layers[1].fused = true;
  const LayerGroupGraph graph = layer_groups(costs);
  ASSERT_EQ(graph.groups.size(), 2u);
  EXPECT_EQ(graph.groups[0].layers, (std::vector{0, 1}));
  EXPECT_DOUBLE_EQ(graph.groups[0].output, 11);  // the view's; the layer's own stays inside
  EXPECT_DOUBLE_EQ(graph.groups[0].kept, 21);
  EXPECT_DOUBLE_EQ(graph.groups[1].seconds(), 6);
  EXPECT_DOUBLE_EQ(graph.groups[1].output, 12);  // the model's
  EXPECT_EQ(graph.successors[0], std::vector{1});
  EXPECT_EQ(layers_of(graph, 0, 2), (std::vector{0, 1, 2}));
}

// Two branches from 0, listed in turns: 1 and its view 3, 2 and its view 4.
TEST(LayerGroupsTest, ByProducerAViewGoesWhereItsInputGoes) {
  CostGraph costs = chain_costs({1, 1, 1, 1, 1}, {}, {1, 1, 1, 1, 1});
  costs.layers[2].inputs = {0};
  costs.layers[3].inputs = {1};
  costs.layers[4].inputs = {2};
  costs.layers[3].fused = costs.layers[4].fused = true;
  const LayerGroupGraph graph = layer_groups_by_producer(costs);
  ASSERT_EQ(graph.groups.size(), 3u);
  EXPECT_EQ(graph.groups[1].layers, (std::vector{1, 3}));
  EXPECT_EQ(graph.groups[2].layers, (std::vector{2, 4}));
  EXPECT_EQ(graph.successors[0], (std::vector{1, 2}));
  // By order both views follow layer 2.
  EXPECT_EQ(layer_groups(costs).groups.back().layers, (std::vector{2, 3, 4}));
}

TEST(LayerGroupsTest, ATensorCrossesACutOnceHoweverManyReadIt) {
  // 0 -> 1, 2, 3 and a chain besides: the cut before 1 carries tensor 0 once.
  CostGraph costs = chain_costs({1, 1, 1, 1}, {}, {8, 4, 2, 1});
  costs.layers[2].inputs = {1, 0};
  costs.layers[3].inputs = {2, 0};
  EXPECT_EQ(bytes_over_cuts(layer_groups(costs)), (std::vector<double>{0, 8, 12, 10, 0}));
  // Where edges have bytes of their own, the most that is asked for.
  costs.layers[2].input_bytes = {Bytes(4), Bytes(16)};
  EXPECT_EQ(bytes_over_cuts(layer_groups(costs)), (std::vector<double>{0, 16, 20, 18, 0}));
}

}  // namespace
}  // namespace sluice
