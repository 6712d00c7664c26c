#include "baselines/piper/knapsack.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <limits>

namespace sluice {
namespace {

using Items = std::vector<std::vector<KnapsackChoice>>;

double brute_force(const Items& items, double memory) {
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(std::size_t, double, double)> choose = [&](std::size_t i, double seconds, double bytes) {
    if (i == items.size()) {
      if (bytes <= memory) best = std::min(best, seconds);
      return;
    }
    for (const KnapsackChoice& c : items[i]) choose(i + 1, seconds + c.seconds, bytes + c.bytes);
  };
  choose(0, 0, 0);
  return best;
}

TEST(KnapsackTest, FastestWhereItFits) {
  const Items items = {{{5, 1}, {2, 9}}, {{1, 1}, {4, 0}}};
  EXPECT_EQ(greedy_knapsack(items, 10)->chosen, (std::vector{1, 0}));
  EXPECT_DOUBLE_EQ(exact_knapsack(items, 10)->seconds, 3);
}

TEST(KnapsackTest, SwapsWhatCostsLeastPerByte) {
  // One byte too many: item 0 saves 8 bytes for 3 seconds, item 1 one byte for 1: dearer per byte.
  const Items items = {{{2, 9}, {5, 1}}, {{1, 1}, {2, 0}}};
  EXPECT_EQ(greedy_knapsack(items, 9)->chosen, (std::vector{1, 0}));
  EXPECT_DOUBLE_EQ(greedy_knapsack(items, 9)->seconds, 6);
  // The exact choice sees that one byte is all that is needed.
  EXPECT_EQ(exact_knapsack(items, 9)->chosen, (std::vector{0, 1}));
  EXPECT_DOUBLE_EQ(exact_knapsack(items, 9)->seconds, 4);
}

TEST(KnapsackTest, ThreeChoicesAreSwappedOneAtATimeWithTheSavingCut) {
  const Items items = {{{2, 9}, {5, 1}, {6, 0}}, {{1, 1}, {2, 0}}};
  EXPECT_DOUBLE_EQ(greedy_knapsack(items, 9)->seconds, 4);
}

TEST(KnapsackTest, NothingWhereTheSmallestDoNotFit) {
  const Items items = {{{1, 4}, {9, 3}}};
  EXPECT_FALSE(greedy_knapsack(items, 2));
  EXPECT_FALSE(exact_knapsack(items, 2));
  EXPECT_FALSE(greedy_knapsack({{}}, 2));
  EXPECT_FALSE(exact_knapsack({{}}, 2));
}

RC_GTEST_PROP(KnapsackTest, ExactIsBruteForceAndGreedyFitsAndIsNoBetter, ()) {
  Items items(*rc::gen::inRange<std::size_t>(1, 7));
  for (auto& item : items) {
    item.resize(*rc::gen::inRange<std::size_t>(1, 4));
    for (KnapsackChoice& c : item) {
      c.seconds = *rc::gen::inRange(0, 20);
      c.bytes = *rc::gen::inRange(0, 20);
    }
  }
  const double memory = *rc::gen::inRange(0, 60);
  const double best = brute_force(items, memory);
  const auto exact = exact_knapsack(items, memory);
  const auto greedy = greedy_knapsack(items, memory);
  RC_ASSERT(exact.has_value() == (best < 1e9));
  if (!exact) return;
  RC_ASSERT(exact->seconds == best);
  RC_ASSERT(greedy.has_value());
  RC_ASSERT(greedy->seconds >= best);
  double bytes = 0;
  for (std::size_t i = 0; i < items.size(); ++i) bytes += items[i][greedy->chosen[i]].bytes;
  RC_ASSERT(bytes <= memory);
  // A narrow front is never worse than greedy, and says that it is narrow.
  const auto narrow = exact_knapsack(items, memory, 1);
  RC_ASSERT(narrow.has_value());
  RC_ASSERT(narrow->complete || narrow->seconds <= greedy->seconds);
}

}  // namespace
}  // namespace sluice
