// The data order: a permutation, the same everywhere, different for each epoch and seed.
#include "workloads/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace sluice {
namespace {

TEST(EpochOrder, IsAPermutation) {
  for (const std::int64_t n : {0, 1, 2, 3, 10, 257, 60'000}) {
    std::vector<std::int64_t> order = epoch_order(n, 5, 2), expected(n);
    std::iota(expected.begin(), expected.end(), std::int64_t{0});
    std::ranges::sort(order);
    EXPECT_EQ(order, expected) << n;
  }
}

TEST(EpochOrder, GoldenValues) {
  // From an independent implementation of the definition (Python): must never change, or runs of different versions are
  // no longer comparable.
  EXPECT_EQ(epoch_order(10, 1, 0), (std::vector<std::int64_t>{4, 2, 1, 3, 7, 9, 5, 0, 6, 8}));
  EXPECT_EQ(epoch_order(10, 1, 1), (std::vector<std::int64_t>{6, 2, 1, 8, 0, 9, 7, 3, 4, 5}));
  EXPECT_EQ(epoch_order(10, 42, 7), (std::vector<std::int64_t>{4, 0, 7, 9, 1, 5, 3, 6, 2, 8}));
}

TEST(EpochOrder, DependsOnSeedAndEpochOnly) {
  EXPECT_EQ(epoch_order(1000, 3, 1), epoch_order(1000, 3, 1));
  EXPECT_NE(epoch_order(1000, 3, 1), epoch_order(1000, 3, 2));
  EXPECT_NE(epoch_order(1000, 3, 1), epoch_order(1000, 4, 1));
  // A seed's next epoch is not another seed's epoch.
  EXPECT_NE(epoch_order(1000, 3, 1), epoch_order(1000, 4, 0));
}

TEST(EpochOrder, EveryPlaceIsEquallyLikely) {
  // Where sample 0 of 4 ends up over 4000 epochs: 1000 each, within 5 standard deviations.
  int count[4] = {};
  for (int epoch = 0; epoch < 4000; ++epoch) {
    const auto order = epoch_order(4, 1, epoch);
    ++count[std::ranges::find(order, 0) - order.begin()];
  }
  for (const int c : count) EXPECT_NEAR(c, 1000, 137);
}

}  // namespace
}  // namespace sluice
