// The order statistics against values worked out by hand and against the coverage they promise.
#include "results/statistics.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

namespace sluice {
namespace {

std::vector<double> one_to(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

TEST(Statistics, QuantilesInterpolate) {
  const std::vector<double> x = {4, 1, 3, 2};
  EXPECT_EQ(median(x), 2.5);
  EXPECT_EQ(quantile(x, 0), 1);
  EXPECT_EQ(quantile(x, 1), 4);
  EXPECT_EQ(quantile(x, 0.25), 1.75);
  EXPECT_EQ(median(std::vector<double>{7}), 7);
  EXPECT_THROW(median({}), std::invalid_argument);
  EXPECT_THROW(quantile(x, 1.5), std::invalid_argument);
}

// Coverage 1 - 2 P(X < j), X binomial(n, 1/2):
//   n = 5:  j = 1: 1 - 2/32 = .9375            too little, so there is no interval
//   n = 6:  j = 1: 1 - 2/64 = .96875           [x1, x6]
//   n = 9:  j = 2: 1 - 2(1+9)/512 = .9609      [x2, x8];  j = 3: .8203
//   n = 10: j = 2: 1 - 2(1+10)/1024 = .9785    [x2, x9];  j = 3: .8906
//   n = 20: j = 6: 1 - 2 21700/2^20 = .9586    [x6, x15]; j = 7: .8847
//   n = 100: j = 40: .9648                     [x40, x61]; j = 41: .9431
TEST(Statistics, MedianIntervalByHand) {
  EXPECT_EQ(median_interval(one_to(0)), std::nullopt);
  EXPECT_EQ(median_interval(one_to(5)), std::nullopt);
  EXPECT_EQ(median_interval(one_to(6)), (Interval{1, 6}));
  EXPECT_EQ(median_interval(one_to(9)), (Interval{2, 8}));
  EXPECT_EQ(median_interval(one_to(10)), (Interval{2, 9}));
  EXPECT_EQ(median_interval(one_to(20)), (Interval{6, 15}));
  EXPECT_EQ(median_interval(one_to(100)), (Interval{40, 61}));
  EXPECT_EQ(median_interval(one_to(5), 0.9), (Interval{1, 5}));
  EXPECT_TRUE(median_interval(one_to(5000)).has_value());  // 2^-5000 is no double
}

// Differences 1 to 5: mean 3, standard deviation sqrt(5/2), error of the mean sqrt(1/2); Student's t of four degrees of
// freedom is beyond 2.776445 in 5 % and beyond 3 sqrt(2) in 1.3236 %.
TEST(Statistics, PairedDifferencesByHand) {
  const PairedDifference paired = paired_difference(one_to(5)).value();
  EXPECT_EQ(paired.mean, 3);
  EXPECT_NEAR(paired.interval.low, 3 - 2.776445 * std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(paired.interval.high, 3 + 2.776445 * std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(paired.p_value, 0.013236, 1e-6);
  EXPECT_EQ(paired_difference(one_to(2)), std::nullopt);
  const std::vector<double> same(5, 0.25), none(5, 0);
  EXPECT_EQ(paired_difference(same)->interval, (Interval{0.25, 0.25}));
  EXPECT_EQ(paired_difference(same)->p_value, 0);
  EXPECT_EQ(paired_difference(none)->p_value, 1);
}

// 0.01 x 3, then 0.03 x 2, then the larger of that and 0.04 x 1.
TEST(Statistics, HolmsCorrectionByHand) {
  EXPECT_EQ(holm(std::vector{0.01, 0.04, 0.03}), (std::vector{0.03, 0.06, 0.06}));
  EXPECT_EQ(holm(std::vector{0.9, 0.8}), (std::vector{1.0, 1.0}));
  EXPECT_TRUE(holm(std::vector<double>()).empty());
}

// Under no difference at all, 5 % of single tests find one, and 5 % of whole families do after the correction.
TEST(Statistics, FamiliesOfPairedTestsAreWrongAsRarelyAsPromised) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 1);
  constexpr int kTrials = 2000, kTests = 6;
  int single = 0, families = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> p_values;
    for (int test = 0; test < kTests; ++test) {
      std::vector<double> differences(5);
      for (double& d : differences) d = noise(random);
      p_values.push_back(paired_difference(differences)->p_value);
    }
    single += p_values.front() < 0.05;
    const std::vector<double> adjusted = holm(p_values);
    families += *std::ranges::min_element(adjusted) < 0.05;
  }
  EXPECT_NEAR(single / static_cast<double>(kTrials), 0.05, 0.015);
  EXPECT_NEAR(families / static_cast<double>(kTrials), 0.05, 0.015);
}

TEST(Statistics, MedianIntervalCoversAsPromised) {
  std::mt19937 random(1);
  std::exponential_distribution<double> skewed(1);
  const double truth = std::log(2.0);
  int covered = 0;
  constexpr int kTrials = 4000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> sample(20);
    for (double& value : sample) value = skewed(random);
    const Interval interval = median_interval(sample).value();
    covered += interval.low <= truth && truth <= interval.high;
  }
  EXPECT_NEAR(covered / double{kTrials}, 0.9586, 0.012);  // 4 standard errors
}

TEST(Statistics, TheIntervalOfAMeanNeedsSixValuesAndIsAPointWithoutNoise) {
  EXPECT_EQ(mean_interval(std::vector<double>(5, 1)), std::nullopt);
  EXPECT_EQ(mean_interval(std::vector<double>(6, 2)), (Interval{2, 2}));
  // Blocks of 2 of 1, 3, 1, 3, ... all have the mean 2, wherever they begin.
  const std::vector<double> in_turn = {1, 3, 1, 3, 1, 3};
  EXPECT_EQ(mean_interval(in_turn), (Interval{2, 2}));
}

// x(k) = 0.5 x(k - 1) + e(k): the mean varies sqrt(3) times as much as that of independent values with this variance,
// whose interval would hold it in 74 % of the series.
TEST(Statistics, TheIntervalOfAMeanKnowsThatNeighboursDependOnEachOther) {
  std::mt19937 bits(7);
  std::normal_distribution<double> noise;
  int held = 0;
  constexpr int kSeries = 400;
  for (int series = 0; series < kSeries; ++series) {
    std::vector<double> x(100);
    double last = noise(bits) / std::sqrt(0.75);
    for (double& value : x) value = last = 0.5 * last + noise(bits);
    const Interval interval = mean_interval(x).value();
    held += interval.low <= 0 && 0 <= interval.high;
  }
  EXPECT_GT(held, 0.91 * kSeries);
  EXPECT_LT(held, 0.99 * kSeries);
}

RC_GTEST_PROP(Statistics, IntervalHoldsTheMedianWhateverTheOrder, ()) {
  auto sample = *rc::gen::container<std::vector<double>>(
      *rc::gen::inRange<std::size_t>(6, 60),
      rc::gen::map(rc::gen::inRange(-1000, 1000), [](int i) { return i / 7.0; }));
  const auto interval = median_interval(sample);
  RC_ASSERT(interval.has_value());
  const double middle = median(sample);
  RC_ASSERT(interval->low <= middle && middle <= interval->high);
  std::reverse(sample.begin(), sample.end());
  RC_ASSERT(median_interval(sample) == interval);
}

TEST(Statistics, OverlapAndHull) {
  EXPECT_TRUE(overlap({1, 2}, {2, 3}));
  EXPECT_TRUE(overlap({1, 9}, {2, 3}));
  EXPECT_FALSE(overlap({1, 2}, {2.1, 3}));
  EXPECT_EQ(hull({1, 2}, {4, 5}), (Interval{1, 5}));
}

TEST(MannWhitney, CountsTheOrdersThatLieAsFarApart) {
  // Two times five values that fall apart: 2 of C(10, 5) = 252 orders.
  const std::vector<double> low = {1, 2, 3, 4, 5}, high = {6, 7, 8, 9, 10};
  EXPECT_DOUBLE_EQ(*mann_whitney(low, high), 2.0 / 252);
  EXPECT_DOUBLE_EQ(*mann_whitney(high, low), 2.0 / 252);
  // {1, 4} and {2, 3}: U = 2, the middle; every order is as far apart.
  EXPECT_DOUBLE_EQ(*mann_whitney(std::vector<double>{1, 4}, std::vector<double>{2, 3}), 1);
  // {1, 2, 4} and {3, 5, 6}: U = 1; of 20 orders, 1 with U = 0 and 1 with U = 1, on either side.
  EXPECT_DOUBLE_EQ(*mann_whitney(std::vector<double>{1, 2, 4}, std::vector<double>{3, 5, 6}), 4.0 / 20);
  EXPECT_FALSE(mann_whitney({}, high));
  EXPECT_DOUBLE_EQ(*mann_whitney(std::vector<double>{1, 1}, std::vector<double>{1, 1}), 1);
}

// All orders of small samples, counted one by one.
RC_GTEST_PROP(MannWhitney, IsTheShareOfAllOrders, ()) {
  const auto n = *rc::gen::inRange<std::size_t>(1, 5), m = *rc::gen::inRange<std::size_t>(1, 5);
  std::vector<double> values(n + m);
  std::iota(values.begin(), values.end(), 1);
  std::vector<bool> first(n + m, false);
  std::fill(first.end() - static_cast<std::ptrdiff_t>(n), first.end(), true);
  std::vector<double> us;
  std::vector<std::vector<double>> ours, theirs;
  do {
    std::vector<double> a, b;
    for (std::size_t i = 0; i < values.size(); ++i) (first[i] ? a : b).push_back(values[i]);
    double u = 0;
    for (const double x : a)
      for (const double y : b) u += x > y;
    us.push_back(std::min(u, static_cast<double>(n * m) - u));
    ours.push_back(a);
    theirs.push_back(b);
  } while (std::next_permutation(first.begin(), first.end()));
  const auto which = *rc::gen::inRange<std::size_t>(0, us.size());
  const auto as_far = std::ranges::count_if(us, [&](double u) { return u <= us[which]; });
  const double expected = static_cast<double>(as_far) / static_cast<double>(us.size());
  RC_ASSERT(std::abs(*mann_whitney(ours[which], theirs[which]) - std::min(1.0, expected)) < 1e-9);
}

}  // namespace
}  // namespace sluice
