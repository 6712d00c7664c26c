#include "baselines/torchgpipe/block_partition.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

std::vector<int> cut(std::vector<double> values, int blocks) { return block_partition(values, blocks); }

TEST(BlockPartitionTest, TorchgpipesOwnResults) {
  EXPECT_EQ(cut({1, 2, 3, 4, 5, 6}, 2), (std::vector{4, 2}));
  EXPECT_EQ(cut({0, 0}, 2), (std::vector{1, 1}));
  EXPECT_EQ(cut({6, 5, 4, 3, 2, 1}, 2), (std::vector{2, 4}));
  EXPECT_EQ(cut({1, 1, 1, 1, 10, 1, 1, 1}, 3), (std::vector{2, 2, 4}));
  EXPECT_EQ(cut({4, 1, 1, 1, 1, 4, 1, 1}, 4), (std::vector{2, 2, 2, 2}));
  EXPECT_EQ(cut({10, 1, 1, 1}, 2), (std::vector{2, 2}));
  EXPECT_EQ(cut({5, 5, 5, 5, 5}, 2), (std::vector{2, 3}));
  EXPECT_EQ(cut({3, 7, 2, 8, 4, 6}, 3), (std::vector{2, 2, 2}));
  EXPECT_EQ(cut({100, 101, 102, 103}, 2), (std::vector{3, 1}));
  EXPECT_EQ(cut({7}, 1), (std::vector{1}));
  EXPECT_EQ(cut({1, 1, 1, 1, 1, 1, 1}, 3), (std::vector{2, 2, 3}));
}

TEST(BlockPartitionTest, ImpossibleCutsAreRejected) {
  EXPECT_EQ(error_of([] { cut({1}, 2); }),
            "balance: 2 blocks of 1 values; use at most as many blocks as values, and at least one");
  EXPECT_NE(error_of([] { cut({1}, 0); }), "no error");
}

RC_GTEST_PROP(BlockPartitionTest, BlocksDifferByAtMostTheRangeOfTheValues, ()) {
  const std::size_t n = *rc::gen::inRange<std::size_t>(1, 16);
  std::vector<double> values(n);
  for (double& v : values) v = *rc::gen::inRange(0, 12);
  const int blocks = *rc::gen::inRange(1, static_cast<int>(n) + 1);
  const std::vector<int> sizes = block_partition(values, blocks);
  RC_ASSERT(sizes.size() == static_cast<std::size_t>(blocks));
  RC_ASSERT(std::accumulate(sizes.begin(), sizes.end(), 0) == static_cast<int>(n));
  RC_ASSERT(*std::ranges::min_element(sizes) >= 1);
  const auto [least, most] = std::ranges::minmax(values);
  // After the minimum is taken off each value, sums differ by at most the range; filling an empty
  // block may move one element more.
  double low = 1e300, high = 0;
  std::size_t at = 0;
  for (const int size : sizes) {
    double sum = 0;
    for (int i = 0; i < size; ++i) sum += values[at++] - least;
    low = std::min(low, sum);
    high = std::max(high, sum);
  }
  RC_ASSERT(high - low <= 2 * (most - least) + 1e-9);
}

}  // namespace
}  // namespace sluice
