#include "harness/base/work.h"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

namespace sluice {
namespace {

// Seconds of full speed that are done from `start` to `end`.
double done(const PiecewiseSpeed& speed, double start, double end) {
  double sum = 0, now = start;
  for (const PiecewiseSpeed::Change& change : speed.changes()) {
    if (change.from <= start || change.from >= end) continue;
    sum += (change.from - now) * speed.at(now);
    now = change.from;
  }
  return sum + (end - now) * speed.at(now);
}

TEST(WorkTest, AChangeInMidWorkCountsFromThatMoment) {
  const PiecewiseSpeed speed({{4, 0.5}, {10, 1}});
  EXPECT_DOUBLE_EQ(speed.finish(0, 10), 13);
  EXPECT_DOUBLE_EQ(speed.finish(0, 4), 4);
  EXPECT_DOUBLE_EQ(speed.finish(0, 5), 6);
  EXPECT_DOUBLE_EQ(speed.finish(20, 3), 23);
}

TEST(WorkTest, FullSpeedAddsNothingToTheWork) {
  EXPECT_EQ(PiecewiseSpeed().finish(0.1, 0.2), 0.1 + 0.2);
  EXPECT_TRUE(PiecewiseSpeed({{3, 1}}).constant());
}

TEST(WorkTest, TheLastSpeedHoldsForEver) { EXPECT_DOUBLE_EQ(PiecewiseSpeed({{0, 0.25}}).finish(2, 1), 6); }

TEST(WorkTest, SpeedsOfDifferentResourcesMultiplyAndTheSlowerLinkDecides) {
  const PiecewiseSpeed a({{1, 0.5}, {3, 1}}), b({{2, 0.25}, {4, 1}});
  const PiecewiseSpeed product = PiecewiseSpeed::product(a, b), slower = PiecewiseSpeed::slower(a, b);
  EXPECT_DOUBLE_EQ(product.at(1.5), 0.5);
  EXPECT_DOUBLE_EQ(product.at(2.5), 0.125);
  EXPECT_DOUBLE_EQ(product.at(3.5), 0.25);
  EXPECT_DOUBLE_EQ(slower.at(2.5), 0.25);
  EXPECT_DOUBLE_EQ(slower.at(5), 1);
}

TEST(WorkTest, FinishUndoesDone) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(0.05, 2);
  for (int k = 0; k < 500; ++k) {
    std::vector<PiecewiseSpeed::Change> changes;
    for (double t = uniform(random); changes.size() < 5; t += uniform(random)) changes.push_back({t, uniform(random)});
    const PiecewiseSpeed speed(changes);
    const double start = uniform(random), work = 3 * uniform(random);
    ASSERT_NEAR(done(speed, start, speed.finish(start, work)), work, 1e-12);
  }
}

TEST(WorkTest, ASpeedOfNothingIsRejected) {
  EXPECT_THROW(PiecewiseSpeed({{0, 0}}), std::logic_error);
  EXPECT_THROW(PiecewiseSpeed({{2, 1}, {1, 0.5}}), std::logic_error);
}

}  // namespace
}  // namespace sluice
