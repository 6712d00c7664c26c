#include "systems/dynapipe/sample_groups.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "harness/base/expect_error.h"
#include "harness/base/index.h"
#include "harness/pipeline/system.h"

namespace sluice {

extern const System dynapipe;

namespace {

using Lengths = std::vector<std::int64_t>;
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

GroupSeconds with_overhead(double overhead) {
  return [=](int samples, std::int64_t longest) { return overhead + static_cast<double>(samples * longest); };
}

// Lengths 4, 4, 1, 1 on 3 ranks, 2 added to each micro-batch's padded length. All apart: 2 * 6 + 6 + 6 + 3 + 3. The
// short ones together: 2 * 6 + 6 + 6 + 4. Two pairs: 2 * 10 + 10 + 4. All together: 2 * 18 + 18.
TEST(SampleGroupsTest, WeighsTheLongestMicroBatchAgainstTheirSum) {
  const Lengths lengths = {4, 4, 1, 1};
  const auto three = group_samples(lengths, 3, with_overhead(2), kNoLimit);
  EXPECT_EQ(three->samples, (std::vector<int>{1, 1, 2}));
  EXPECT_DOUBLE_EQ(three->objective, 28);
  // On one rank only the sum counts: 10 + 4.
  const auto one = group_samples(lengths, 1, with_overhead(2), kNoLimit);
  EXPECT_EQ(one->samples, (std::vector<int>{2, 2}));
  EXPECT_DOUBLE_EQ(one->objective, 14);
}

// Without an overhead padding is all that a larger micro-batch brings.
TEST(SampleGroupsTest, WithoutAnOverheadEverySampleIsAMicroBatch) {
  EXPECT_EQ(group_samples(Lengths{5, 4, 2}, 4, with_overhead(0), kNoLimit)->samples, (std::vector<int>{1, 1, 1}));
}

TEST(SampleGroupsTest, KeepsToTheLimitOfAMicroBatch) {
  const Lengths lengths = {4, 4, 1, 1};
  EXPECT_EQ(group_samples(lengths, 1, with_overhead(100), kNoLimit)->samples, (std::vector<int>{4}));
  EXPECT_EQ(group_samples(lengths, 1, with_overhead(100), 8)->samples, (std::vector<int>{2, 2}));
  EXPECT_EQ(group_samples(lengths, 1, with_overhead(100), 7)->samples, (std::vector<int>{1, 1, 2}));
  EXPECT_FALSE(group_samples(lengths, 1, with_overhead(100), 3));
}

// Every cut of the sorted samples into groups.
double brute_force(const Lengths& lengths, int ranks, const GroupSeconds& seconds, std::int64_t limit) {
  const int n = count_of(lengths);
  double best = std::numeric_limits<double>::infinity();
  for (unsigned cuts = 0; cuts < 1u << (n - 1); ++cuts) {
    double longest = 0, sum = 0;
    bool fits = true;
    for (int first = 0, last = 1; last <= n; ++last) {
      if (last < n && (cuts >> (last - 1) & 1) == 0) continue;
      const double own = seconds(last - first, lengths[first]);
      fits = fits && (last - first) * lengths[first] <= limit;
      longest = std::max(longest, own);
      sum += own;
      first = last;
    }
    if (fits) best = std::min(best, (ranks - 1) * longest + sum);
  }
  return best;
}

RC_GTEST_PROP(SampleGroupsTest, FindsTheBestOfAllCuts, ()) {
  Lengths lengths;
  for (int n = *rc::gen::inRange(1, 10); n > 0; --n) lengths.push_back(*rc::gen::inRange(1, 20));
  std::ranges::sort(lengths, std::greater());
  const int ranks = *rc::gen::inRange(1, 9);
  const double overhead = *rc::gen::inRange(0, 30), squares = *rc::gen::inRange(0, 3);
  const GroupSeconds seconds = [&](int samples, std::int64_t longest) {
    const auto length = static_cast<double>(longest);
    return overhead + samples * (length + squares * length * length);
  };
  const std::int64_t limit = *rc::gen::inRange<std::int64_t>(1, 80);
  const auto groups = group_samples(lengths, ranks, seconds, limit);
  const double best = brute_force(lengths, ranks, seconds, limit);
  RC_ASSERT(groups.has_value() == std::isfinite(best));
  if (!groups) return;
  RC_ASSERT(groups->objective == best);
  RC_ASSERT(std::accumulate(groups->samples.begin(), groups->samples.end(), 0) == count_of(lengths));
  double longest = 0, sum = 0;
  int first = 0;
  for (const int samples : groups->samples) {
    RC_ASSERT(samples * lengths[first] <= limit);
    const double own = seconds(samples, lengths[first]);
    longest = std::max(longest, own);
    sum += own;
    first += samples;
  }
  RC_ASSERT((ranks - 1) * longest + sum == best);
}

TEST(SampleGroupsTest, SizesAreThePaddedLengthsWithTheOverhead) {
  EXPECT_EQ(dynapipe.group_samples({.lengths = {1, 4, 1, 4}, .ranks = 3, .overhead = 2}), (Lengths{6, 6, 4}));
  EXPECT_EQ(error_of([] {
              dynapipe.group_samples({.lengths = {1, 4}, .limit = 3});
            }),
            "dynapipe: a sample of length 4 is over the limit of 3 for a micro-batch; raise the limit, or leave the "
            "sample out");
}

}  // namespace
}  // namespace sluice
