#include "harness/pipeline/microbatch_sizes.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(MicrobatchSizes, RepeatWithEveryUpdate) {
  const MicrobatchSizes sizes({3, 1, 3, 2});
  EXPECT_TRUE(sizes.differ());
  EXPECT_EQ(sizes.batch(), 9);
  EXPECT_EQ(std::vector<std::int64_t>(sizes.distinct().begin(), sizes.distinct().end()),
            (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(sizes.of(Micro(2)), 3);
  EXPECT_EQ(sizes.index_of(Micro(3)), 1);
  EXPECT_EQ(sizes.before(Micro(3)), 7);
  EXPECT_EQ(sizes.before(Micro(5)), 9 + 3);
  EXPECT_DOUBLE_EQ(sizes.weight(Micro(5)), 1.0 / 9);
}

TEST(MicrobatchSizes, AreAllTheSameUnlessGiven) { EXPECT_FALSE(MicrobatchSizes().differ()); }

}  // namespace
}  // namespace sluice
