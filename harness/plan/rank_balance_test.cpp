#include "harness/plan/rank_balance.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

namespace sluice {
namespace {

std::vector<double> before(const std::vector<double>& layers) {
  std::vector<double> sums{0};
  for (const double seconds : layers) sums.push_back(sums.back() + seconds);
  return sums;
}

// In a V over two ranks, stages 0 and 3 are on rank 0. With the last layer thrice as long as the others the stages of
// rank 1 take more layers: 1 + 3 on rank 0, 2 + 2 on rank 1. Balanced one by one, the slowest stage would take 3, too,
// but rank 0 with the stages (2, 3) five.
TEST(RankBalanceTest, TheStagesOfARankAreBalancedTogether) {
  const std::vector<double> seconds = before({1, 1, 1, 1, 1, 3});
  const std::vector<int> rank_of = {0, 1, 1, 0};
  const std::vector<double> speed(4, 1);
  EXPECT_EQ(balance_of({0, 2, 3, 5, 6}, seconds, rank_of, speed).slowest, 5);
  const std::vector<int> cut = balanced_over_ranks({0, 2, 3, 5, 6}, seconds, rank_of, speed);
  EXPECT_EQ(balance_of(cut, seconds, rank_of, speed).slowest, 4);
  EXPECT_EQ(cut[1], 1);
  EXPECT_EQ(cut[3], 5);
}

TEST(RankBalanceTest, ACutThatIsBalancedAlreadyStays) {
  const std::vector<double> seconds = before({1, 1, 1, 1});
  EXPECT_EQ(balanced_over_ranks({0, 1, 2, 3, 4}, seconds, {0, 1, 1, 0}, {1, 1, 1, 1}), (std::vector{0, 1, 2, 3, 4}));
  EXPECT_EQ(balanced_over_ranks({0, 2, 4}, seconds, {0, 1}, {1, 1}), (std::vector{0, 2, 4}));
}

TEST(RankBalanceTest, ASlowDeviceGetsLess) {
  const std::vector<double> seconds = before({1, 1, 1, 1, 1, 1});
  const std::vector<int> cut = balanced_over_ranks({0, 3, 6}, seconds, {0, 1}, {0.5, 1});
  EXPECT_EQ(cut, (std::vector{0, 2, 6}));  // 4 s and 4 s
}

RC_GTEST_PROP(RankBalanceTest, MovingCutsComesNearTheBestOfAll, ()) {
  const int ranks = *rc::gen::inRange(2, 4), chunks = *rc::gen::inRange(2, 3);
  const int stages = ranks * chunks, layers = stages + *rc::gen::inRange(0, 5);
  std::vector<double> times;
  for (int l = 0; l < layers; ++l) times.push_back(*rc::gen::inRange(1, 9));
  const std::vector<double> seconds = before(times);
  std::vector<int> rank_of, starts(static_cast<std::size_t>(stages) + 1);
  for (int s = 0; s < stages; ++s) rank_of.push_back((s / ranks) % 2 ? ranks - 1 - s % ranks : s % ranks);
  std::iota(starts.begin(), starts.end(), 0);
  starts.back() = layers;
  const std::vector<double> speed(rank_of.size(), 1);
  const double best = balance_of(balanced_over_ranks(starts, seconds, rank_of, speed), seconds, rank_of, speed).slowest;
  const std::vector<int> climbed = balanced_over_ranks(starts, seconds, rank_of, speed, 0);
  const double found = balance_of(climbed, seconds, rank_of, speed).slowest;
  RC_ASSERT(found >= best);
  RC_ASSERT(found <= balance_of(starts, seconds, rank_of, speed).slowest);
  RC_ASSERT(found <= 1.5 * best);
  for (std::size_t s = 0; s < rank_of.size(); ++s) RC_ASSERT(climbed[s] < climbed[s + 1]);
}

}  // namespace
}  // namespace sluice
