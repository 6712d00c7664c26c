#include "harness/plan/down_sets.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

namespace sluice {
namespace {

TEST(DownSetsTest, OfAChainAreItsSuffixes) {
  const DownSets sets = down_sets({{1}, {2}, {}}, 100);  // 0 -> 1 -> 2, with what comes after
  ASSERT_EQ(sets.count(), 4u);
  EXPECT_EQ(sets.by_size, (std::vector{0, 1, 2, 3}));
  EXPECT_TRUE(sets.contains(1, 2));
  EXPECT_FALSE(sets.contains(1, 1));
  EXPECT_EQ(sets.full, 3);
  EXPECT_EQ(sets_within(sets, 2), (std::vector{1, 0}));
}

TEST(DownSetsTest, MoreThanTheCapIsIncomplete) {
  const std::vector<std::vector<int>> unrelated(10);
  EXPECT_FALSE(down_sets(unrelated, 1023).complete);
  EXPECT_EQ(down_sets(unrelated, 1024).count(), 1024u);
}

RC_GTEST_PROP(DownSetsTest, AreTheClosedSubsetsOfARandomGraph, ()) {
  const int n = *rc::gen::inRange(1, 9);
  std::vector<std::vector<int>> needs(static_cast<std::size_t>(n));
  for (int v = 0; v < n; ++v)
    for (int w = v + 1; w < n; ++w)
      if (*rc::gen::inRange(0, 3) == 0) needs[v].push_back(w);
  const DownSets sets = down_sets(needs, 1000);
  std::set<unsigned> found(sets.bits.begin(), sets.bits.end()), expected;
  for (unsigned subset = 0; subset < 1u << n; ++subset) {
    bool closed = true;
    for (int v = 0; v < n; ++v)
      for (const int w : needs[v])
        if ((subset >> v & 1) && !(subset >> w & 1)) closed = false;
    if (closed) expected.insert(subset);
  }
  RC_ASSERT(found == expected);
  // Every nested pair is found by the walk.
  const auto within = sets_within(sets, sets.full);
  RC_ASSERT(within.size() + 1 == sets.count());
}

}  // namespace
}  // namespace sluice
