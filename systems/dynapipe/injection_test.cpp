#include "systems/dynapipe/injection.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice {
namespace {

TEST(Injection, PermutesClustersOfSimilarMicroBatches) {
  const std::vector<EndTimes> times = {{9, 9}, {3, 3}, {9, 9}, {3, 3}};
  EXPECT_EQ(clusters_of(times, 4), (std::vector<int>{1, 0, 1, 0}));
  EXPECT_EQ(injection_orders(times, 4), (std::vector<std::vector<int>>{{0, 1, 2, 3}, {1, 3, 0, 2}, {0, 2, 1, 3}}));
}

TEST(Injection, OfEqualMicroBatchesIsTheGivenOrder) {
  EXPECT_EQ(injection_orders(std::vector<EndTimes>(5, {1, 2}), 4), (std::vector<std::vector<int>>{{0, 1, 2, 3, 4}}));
}

TEST(Injection, HasAtMostTheClustersThatAreAskedFor) {
  std::vector<EndTimes> times;
  for (int m = 0; m < 12; ++m) times.push_back({1.0 * m, 2.0 * m});
  EXPECT_EQ(std::ranges::max(clusters_of(times, 3)), 2);
  EXPECT_EQ(injection_orders(times, 3).size(), 6u);  // 3!; the ascending one is the given order
}

}  // namespace
}  // namespace sluice
