#include "harness/plan/ideal_partition.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "harness/plan/operator_graph_support.h"

namespace sluice {
namespace {

TEST(IdealPartitionTest, Diamond) {  // EX-1
  const OperatorGraph graph = graph_of({2, 3, 3, 2}, {1, 1, 1, 0}, {{0, 1}, {0, 2}, {1, 3}, {2, 3}}, 2);
  const IdealPartition result = ideal_partition(graph);
  EXPECT_DOUBLE_EQ(result.load, 7);
  EXPECT_DOUBLE_EQ(brute_force(graph, Split::any), 7);
  ASSERT_EQ(result.devices.size(), 2u);
  EXPECT_DOUBLE_EQ(std::max(result.devices[0].load, result.devices[1].load), 7);
}

TEST(IdealPartitionTest, AChainCutInTwo) {  // EX-2
  const std::vector<std::pair<int, int>> chain = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  const std::vector<double> send(5, 0.1);
  const OperatorGraph uneven = graph_of({5, 1, 6, 1, 5}, send, chain, 2);
  EXPECT_DOUBLE_EQ(ideal_partition(uneven).load, 12.1);
  EXPECT_DOUBLE_EQ(brute_force(uneven, Split::ordered), 12.1);
  EXPECT_NEAR(brute_force(uneven, Split::any), 10.2, 1e-12);
  const OperatorGraph light = graph_of({5, 1, 1, 1, 5}, send, chain, 2);
  EXPECT_DOUBLE_EQ(ideal_partition(light).load, 7.1);
}

TEST(IdealPartitionTest, MemoryIsAHardLimit) {  // EX-3
  const std::vector<std::pair<int, int>> chain = {{0, 1}, {1, 2}, {2, 3}};
  OperatorGraph graph = graph_of({1, 1, 1, 9}, {0, 0, 0, 0}, chain, 2);
  graph.memory = 2;
  EXPECT_DOUBLE_EQ(ideal_partition(graph).load, 10);
  graph.memory = 3;
  EXPECT_DOUBLE_EQ(ideal_partition(graph).load, 9);
  graph.memory = 1;
  EXPECT_TRUE(std::isinf(ideal_partition(graph).load));
  EXPECT_TRUE(ideal_partition(graph).devices.empty());
}

TEST(IdealPartitionTest, OneAcceleratorTakesItAll) {  // EX-4
  const IdealPartition result = ideal_partition(graph_of({2, 3}, {1, 1}, {{0, 1}}, 1));
  EXPECT_DOUBLE_EQ(result.load, 5);
  EXPECT_EQ(result.pairs, 6);  // empty, {0}, {0, 1}: each with what it holds and with itself
}

TEST(IdealPartitionTest, GradientsFollowTheirColour) {
  // 0 -> 1, gradients 3 <- 2; colours keep 0 with 3 and 1 with 2.
  OperatorGraph graph = graph_of({1, 2, 4, 8}, {1, 1, 1, 0}, {{0, 1}, {1, 2}, {2, 3}}, 2);
  graph.operators[2].backward = graph.operators[3].backward = true;
  graph.operators[0].color = graph.operators[3].color = 0;
  graph.operators[1].color = graph.operators[2].color = 1;
  const IdealPartition result = ideal_partition(graph);
  // 1 + 8 + sends 0 and receives from 2: 11; 2 + 4 + receives 0, sends 2: 8.
  EXPECT_DOUBLE_EQ(result.load, 11);
  ASSERT_EQ(result.devices.size(), 2u);
  EXPECT_EQ(result.devices[0].operators, (std::vector{0, 3}));
}

TEST(IdealPartitionTest, OutOfTimePutsEverythingOnOneDevice) {
  OperatorGraph graph = graph_of(std::vector<double>(12, 1.0), std::vector<double>(12, 0.0), {}, 3);
  const IdealPartition result = ideal_partition(graph, {.seconds = 0});
  EXPECT_FALSE(result.complete);
  EXPECT_DOUBLE_EQ(result.load, 12);
}

TEST(IdealPartitionTest, TooManyDownSetsAreCutAsAChain) {
  OperatorGraph graph = graph_of(std::vector<double>(12, 1.0), std::vector<double>(12, 0.0), {}, 3);
  const IdealPartition result = ideal_partition(graph, {.sets = 100});
  EXPECT_FALSE(result.complete);
  EXPECT_DOUBLE_EQ(result.load, 4);
}

RC_GTEST_PROP(IdealPartitionTest, IsAsGoodAsBruteForce, ()) {
  const OperatorGraph graph = random_operator_graph(6);
  const double best = brute_force(graph, Split::ordered);
  const IdealPartition result = ideal_partition(graph);
  RC_ASSERT(std::isinf(best) == std::isinf(result.load));
  if (std::isinf(best)) return;
  RC_ASSERT(std::abs(result.load - best) <= 1e-9 * std::max(1.0, best));
  RC_ASSERT(brute_force(graph, Split::any) <= best);
  std::size_t placed = 0;
  double load = 0;
  for (const PlacedDevice& device : result.devices) {
    placed += device.operators.size();
    load = std::max(load, device_load(graph, device.operators, device.accelerator));
  }
  RC_ASSERT(placed == graph.operators.size());
  RC_ASSERT(std::abs(load - result.load) <= 1e-9 * std::max(1.0, best));
}

}  // namespace
}  // namespace sluice
