#include "results/step_repeats.h"

#include <gtest/gtest.h>

#include <random>

#include "harness/base/error.h"

namespace sluice {
namespace {

std::vector<double> steps_of(const Json& list) {
  const Json document = {{"steps", list}};
  JsonReader reader(document, "r.jsonl:1");
  return read_steps(reader, "steps");
}

std::string rejection_of_steps(const Json& list) {
  try {
    steps_of(list);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(StepRepeats, APatternThatRepeatsStandsOnce) {
  std::vector<double> steps = {0.5};
  for (int k = 0; k < 400; ++k) steps.insert(steps.end(), {0.1, 0.2});
  steps.push_back(0.3);
  const Json list = with_repeats(steps);
  EXPECT_EQ(list.dump(), R"([0.5,{"of":[0.1,0.2],"times":400},0.3])");
  EXPECT_EQ(steps_of(list), steps);
}

TEST(StepRepeats, WhatDoesNotRepeatOrSavesLittleStandsAsItIs) {
  EXPECT_EQ(with_repeats(std::vector<double>{1, 1, 2, 3, 2, 3}).dump(), "[1.0,1.0,2.0,3.0,2.0,3.0]");
  EXPECT_EQ(with_repeats(std::vector<double>{}).dump(), "[]");
  const std::vector<double> many(100'001, 0.5);
  EXPECT_EQ(steps_of(with_repeats(many)), many);
  EXPECT_EQ(with_repeats(std::vector<double>{7, 7, 7, 7, 7}).dump(), R"([{"of":[7.0],"times":5}])");
}

TEST(StepRepeats, AnyStepsComeBackAsTheyWere) {
  std::mt19937 random(3);
  for (int run = 0; run < 300; ++run) {
    std::vector<double> steps;
    while (steps.size() < 200) {
      const std::size_t length = 1 + random() % 70, times = 1 + random() % 5;
      std::vector<double> pattern(length);
      for (double& value : pattern) value = 0.25 * static_cast<double>(1 + random() % 3);
      for (std::size_t k = 0; k < times; ++k) steps.insert(steps.end(), pattern.begin(), pattern.end());
    }
    ASSERT_EQ(steps_of(with_repeats(steps)), steps) << run;
  }
}

TEST(StepRepeats, HostileRepeatsAreRejected) {
  EXPECT_EQ(rejection_of_steps({{{"times", 50'001}, {"of", {1.0, 2.0}}}}),
            "r.jsonl:1: /steps/0/times: makes more than 100,000 steps; write them one by one");
  EXPECT_NE(rejection_of_steps({{{"times", 10'000'000'000}, {"of", {1.0}}}}), "");
  EXPECT_NE(rejection_of_steps({{{"times", 0}, {"of", {1.0}}}}), "");
  EXPECT_NE(rejection_of_steps({{{"times", 2}}}), "");
  EXPECT_NE(rejection_of_steps({{{"times", 2}, {"of", {1.0}}, {"or", 1}}}), "");
  EXPECT_NE(rejection_of_steps({{{"times", 2}, {"of", {"x"}}}}), "");
}

}  // namespace
}  // namespace sluice
