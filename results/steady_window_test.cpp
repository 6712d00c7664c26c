// Steady windows of steps worked out by hand.
#include "results/steady_window.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

TEST(SteadyWindow, IsWholePeriodsAfterThePipeHasFilled) {
  const std::vector<double> steps = {9, 4, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2};
  const SteadyWindow window = steady_window(steps).value();
  EXPECT_EQ(window.first, 2u);
  EXPECT_EQ(window.period, 3u);
  EXPECT_EQ(window.count, 9u);
  EXPECT_EQ(window.seconds, 18);
  EXPECT_EQ(window.step(), 2);
}

TEST(SteadyWindow, EqualStepsRepeatAfterOne) {
  const SteadyWindow window = steady_window(std::vector<double>{5, 2, 2, 2}, 2).value();
  EXPECT_EQ(window.period, 1u);
  EXPECT_EQ(window.step(), 2);
}

// 2, 2, 1 in turn: two equal neighbours are no steady state.
TEST(SteadyWindow, EqualNeighboursWithinAPeriodAreNoPeriod) {
  const std::vector<double> steps = {2, 2, 1, 2, 2, 1, 2, 2, 1};
  EXPECT_EQ(steady_window(steps)->period, 3u);
  EXPECT_DOUBLE_EQ(steady_window(steps)->step(), 5 / 3.0);
}

TEST(SteadyWindow, NeedsTwoPeriodsHalfOfTheStepsAndAsManyAsAreAskedFor) {
  EXPECT_EQ(steady_window({}, 0), std::nullopt);
  EXPECT_EQ(steady_window(std::vector<double>{2}, 0), std::nullopt);
  EXPECT_EQ(steady_window(std::vector<double>{1, 2, 3, 1, 2}, 2), std::nullopt);
  EXPECT_EQ(steady_window(std::vector<double>{8, 7, 6, 1, 1}, 2), std::nullopt);
  EXPECT_TRUE(steady_window(std::vector<double>{8, 7, 1, 1}, 2));
  EXPECT_EQ(steady_window(std::vector<double>{8, 7, 1, 1}, 3), std::nullopt);
  EXPECT_EQ(steady_window(std::vector<double>(6, 0.0)), std::nullopt);  // no time passes
}

TEST(SteadyWindow, NineDigitsAreEnough) {
  const std::vector<double> steps = {0.123456789, 0.987654321, 0.12345678899999, 0.98765432104};
  EXPECT_EQ(steady_window(steps, 4)->period, 2u);
  EXPECT_EQ(steady_window(std::vector<double>{1, 1.0000001}, 2), std::nullopt);
}

TEST(SteadyWindow, StepsAreDifferencesOfTheirEnds) {
  EXPECT_EQ(step_seconds_of(std::vector<double>{2, 3, 7}), (std::vector<double>{2, 1, 4}));
}

}  // namespace
}  // namespace sluice
