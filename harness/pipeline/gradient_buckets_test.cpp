#include "harness/pipeline/gradient_buckets.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using Ends = std::vector<std::size_t>;

Ends ends_of(const std::vector<Bytes>& gradients, std::int64_t least) {
  return gradient_bucket_ends(gradients, Bytes(least));
}

TEST(GradientBucketsTest, ABucketEndsWithTheGradientThatFillsIt) {
  const std::vector<Bytes> gradients = {Bytes(100), Bytes(150), Bytes(150)};
  EXPECT_EQ(ends_of(gradients, 1), (Ends{1, 2, 3}));
  EXPECT_EQ(ends_of(gradients, 200), (Ends{2, 3}));
  EXPECT_EQ(ends_of(gradients, 250), (Ends{2, 3}));
  EXPECT_EQ(ends_of(gradients, 251), (Ends{3}));
  EXPECT_EQ(ends_of(gradients, 1000), (Ends{3}));
}

TEST(GradientBucketsTest, NoGradientsMakeNoBucket) { EXPECT_EQ(ends_of({}, 25), Ends{}); }

}  // namespace
}  // namespace sluice
