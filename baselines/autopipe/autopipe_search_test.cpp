#include "baselines/autopipe/autopipe_search.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "harness/base/expect_error.h"
#include "harness/base/index.h"
#include "harness/pipeline/orders.h"
#include "harness/sim/chain_clock.h"

namespace sluice {
namespace {

using Blocks = std::vector<BlockSeconds>;

Blocks blocks_of(const std::vector<double>& forward) {
  Blocks blocks;
  for (const double f : forward) blocks.push_back({f, 2 * f});
  return blocks;
}

const AutoPipeCut& fastest(const AutoPipeResult& result) {
  return *std::ranges::min_element(result.kept, {}, &AutoPipeCut::seconds);
}

// Three blocks of F 1 and B 2 on two stages, four micro-batches. 1 | 2: the second stage computes from 1 to 25, and the
// last B of the first stage ends at 27. 2 | 1: the first stage computes 0-4 and, from the first gradient on, 5-25.
TEST(AutoPipeSearchTest, MovesABlockToTheStageBeforeTheCriticalOne) {
  const Blocks blocks = blocks_of({1, 1, 1});
  const std::vector<double> speeds = {1, 1};
  const AutoPipeCut first = timed_cut(blocks, speeds, {0, 1, 3}), moved = timed_cut(blocks, speeds, {0, 2, 3});
  EXPECT_DOUBLE_EQ(first.seconds, 27);
  EXPECT_EQ(first.critical, 1);
  EXPECT_DOUBLE_EQ(moved.seconds, 25);
  EXPECT_EQ(moved.critical, 0);
  const AutoPipeResult result = autopipe_search(blocks, speeds);
  ASSERT_EQ(result.kept.size(), 3u);  // the first cut, and the best one of both critical stages
  EXPECT_EQ(result.kept[0].starts, first.starts);
  EXPECT_EQ(fastest(result).starts, moved.starts);
  EXPECT_EQ(result.states, 2);
  EXPECT_TRUE(result.complete);
}

// Equal stages: none waits, and the last one is critical.
TEST(AutoPipeSearchTest, OfEqualStagesTheLastIsCritical) {
  const AutoPipeCut cut = timed_cut(blocks_of({1, 1, 1, 1}), std::vector<double>(4, 1), {0, 1, 2, 3, 4});
  EXPECT_EQ(cut.critical, 3);
  EXPECT_DOUBLE_EQ(cut.seconds, (8 + 3) * 3);
}

TEST(AutoPipeSearchTest, AFasterDeviceGetsMoreBlocks) {
  const AutoPipeResult result = autopipe_search(blocks_of({1, 1, 1, 1}), std::vector<double>{3, 1});
  EXPECT_EQ(fastest(result).starts, (std::vector<int>{0, 3, 4}));
}

TEST(AutoPipeSearchTest, OutOfTimeKeepsTheFirstCut) {
  const AutoPipeResult result = autopipe_search(blocks_of({1, 1, 1}), std::vector<double>{1, 1}, {.seconds = 0});
  EXPECT_FALSE(result.complete);
  ASSERT_EQ(result.kept.size(), 1u);
  EXPECT_EQ(result.kept[0].starts, (std::vector<int>{0, 1, 3}));
}

TEST(AutoPipeSearchTest, MoreStagesThanBlocksAreRejected) {
  EXPECT_EQ(error_of([] {
              autopipe_search(blocks_of({1}), std::vector<double>{1, 1});
            }),
            "plan: 2 stages for 1 layers; use at most as many stages as layers, and at least one");
}

double brute_force(const Blocks& blocks, const std::vector<double>& speeds) {
  const int n = count_of(blocks), stages = count_of(speeds);
  double best = kNever;
  std::vector<int> starts{0};
  const std::function<void()> extend = [&] {
    if (count_of(starts) == stages) {
      std::vector<int> whole = starts;
      whole.push_back(n);
      best = std::min(best, timed_cut(blocks, speeds, whole).seconds);
      return;
    }
    for (int next = starts.back() + 1; next < n; ++next) {
      starts.push_back(next);
      extend();
      starts.pop_back();
    }
  };
  extend();
  return best;
}

RC_GTEST_PROP(AutoPipeSearchTest, NeverBeatsBruteForceAndNeverLosesToTheFirstCut, ()) {
  const int n = *rc::gen::inRange(1, 9), stages = *rc::gen::inRange(1, n + 1);
  Blocks blocks;
  for (int i = 0; i < n; ++i)
    blocks.push_back({static_cast<double>(*rc::gen::inRange(1, 12)), static_cast<double>(*rc::gen::inRange(1, 24))});
  std::vector<double> speeds;
  for (int s = 0; s < stages; ++s) speeds.push_back(*rc::gen::inRange(1, 4));
  const AutoPipeResult result = autopipe_search(blocks, speeds);
  const double found = fastest(result).seconds, best = brute_force(blocks, speeds);
  RC_ASSERT(found >= best * (1 - 1e-9));
  RC_ASSERT(found <= result.kept.front().seconds);
  if (stages == 1 || stages == n) RC_ASSERT(found <= best * (1 + 1e-9));  // there is one cut
}

// How far it is from the best cut, and how far the first cut is, on 300 random chains of 6 to 10 blocks.
TEST(AutoPipeSearchTest, FindsTheBestCutOfMostChains) {
  std::mt19937 random(1);
  const auto between = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  int found_best = 0, first_best = 0;
  double worst = 1, worst_first = 1;
  constexpr int kChains = 300;
  for (int i = 0; i < kChains; ++i) {
    std::vector<double> forward;
    for (int n = between(6, 10); n > 0; --n) forward.push_back(between(1, 10));
    const Blocks blocks = blocks_of(forward);
    const std::vector<double> speeds(static_cast<std::size_t>(between(2, 5)), 1);
    const AutoPipeResult result = autopipe_search(blocks, speeds);
    const double best = brute_force(blocks, speeds), found = fastest(result).seconds / best,
                 first = result.kept.front().seconds / best;
    found_best += found < 1 + 1e-9;
    first_best += first < 1 + 1e-9;
    worst = std::max(worst, found);
    worst_first = std::max(worst_first, first);
  }
  EXPECT_EQ(found_best, 295);
  EXPECT_NEAR(worst, 1.04, 0.005);
  EXPECT_EQ(first_best, 193);
  EXPECT_NEAR(worst_first, 1.11, 0.005);
}

// The virtual clock, with the same order as a rule.
RC_GTEST_PROP(AutoPipeSearchTest, TimesCutsAsTheVirtualClockDoes, ()) {
  const int stages = *rc::gen::inRange(1, 7);
  Blocks blocks;
  std::vector<StageCost> costs;
  std::vector<int> starts{0};
  for (int s = 0; s < stages; ++s) {
    blocks.push_back({static_cast<double>(*rc::gen::inRange(1, 9)), static_cast<double>(*rc::gen::inRange(1, 9))});
    costs.push_back(
        {Seconds(blocks.back().forward), Seconds(blocks.back().backward), Seconds(0), Seconds(0), Bytes(0)});
    starts.push_back(s + 1);
  }
  const double seconds = timed_cut(blocks, std::vector<double>(blocks.size(), 1), starts).seconds;
  const ChainTimes clock =
      time_chain(orders::one_f_one_b_rule(stages, 2 * stages), costs, stages, 2 * stages, Seconds(0), 1);
  RC_ASSERT(seconds == clock.bubble.makespan);
}

}  // namespace
}  // namespace sluice
