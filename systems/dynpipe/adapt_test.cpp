// The decision from observations, without any clock.
#include "systems/dynpipe/adapt.h"

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/plan/plan_test_support.h"

namespace sluice {
namespace {

// Twelve equal layers of 3 ms on three devices behind fast links.
struct AdaptCase {
  CostGraph costs = chain_costs(std::vector<double>(12, 3e-3), std::vector<std::int64_t>(12, 1'000'000),
                                std::vector<std::int64_t>(12, 1000));
  Cluster cluster = machines(1, 3, 1e9, 1e9);
  Problem problem{costs, cluster, 3, 1, 1, {}};
  std::vector<Plan> plans;
  std::vector<ObservedWindow> windows;

  AdaptCase() { plans.push_back(plan_of(problem, best_partition(chain_of(problem, 0), {}))); }
  // A window in which the devices are so much slower.
  void see(std::vector<double> slowdown, int times = 1) {
    const DynPipeChain chain = chain_of(problem, 0);
    const DynPipeCost cost = cost_of(chain, cuts_of(problem, plans.back()), {});
    for (int k = 0; k < times; ++k) {
      ObservedWindow& w = windows.emplace_back();
      w.plan = plans.size() - 1;
      w.updates = 25;
      for (std::size_t s = 0; s < 3; ++s) w.compute.push_back(25 * slowdown[s] * cost.stage[s]);
    }
  }
  std::optional<Plan> decide(std::int64_t updates_left = 10'000, const AdaptOptions& options = {}) {
    return adapted_plan({plans, windows, updates_left}, problem, options);
  }
};

TEST(DynPipeAdaptTest, AQuietRunKeepsItsPlan) {
  AdaptCase c;
  c.see({1, 1, 1}, 10);
  EXPECT_FALSE(c.decide());
}

TEST(DynPipeAdaptTest, ASlowDeviceGivesLayersAwayAndGetsThemBack) {
  AdaptCase c;
  c.see({1, 1, 1}, 4);
  c.see({1, 1, 2}, 1);
  EXPECT_FALSE(c.decide());  // one window is not enough
  c.see({1, 1, 2}, 1);
  const std::optional<Plan> slower = c.decide();
  ASSERT_TRUE(slower);
  EXPECT_EQ(slower->stages[2].layers.size(), 2u);  // 5, 5, 2 layers: 15, 15 and 12 ms
  c.plans.push_back(*slower);
  c.see({1, 1, 2}, 8);
  EXPECT_FALSE(c.decide());  // as the plan assumes
  c.see({1, 1, 1}, 8);
  const std::optional<Plan> again = c.decide();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->stages[2].layers.size(), 4u);
}

TEST(DynPipeAdaptTest, AMachineThatIsSlowerThanItsCostsSayIsNotSlowedDown) {
  AdaptCase c;
  c.see({1.7, 1.7, 1.7}, 10);  // from the first window on
  EXPECT_FALSE(c.decide());
}

TEST(DynPipeAdaptTest, AMoveThatTheRestOfTheRunCannotPayIsNotMade) {
  AdaptCase c;
  c.see({1, 1, 1}, 4);
  c.see({1, 1, 2}, 2);
  EXPECT_TRUE(c.decide(100));
  EXPECT_FALSE(c.decide(2));
}

TEST(DynPipeAdaptTest, TheCodesRuleWaitsForAFactorOfTwo) {
  AdaptCase c;
  const AdaptOptions code{.detector = code_detector(), .candidates = {.code = true}, .weighs_cost = false};
  c.see({1, 1, 1}, 4);
  c.see({1, 1, 1.9}, 4);
  EXPECT_FALSE(c.decide(10'000, code));
}

TEST(DynPipeAdaptTest, AForestSaysWhatACandidateStageWouldTake) {
  // Trained to say that no stage is slowed, whatever was seen: nothing is gained by another plan.
  const ForestRows rows{{"seen_slowdown", "seconds"}, {{1, 0}, {2, 1}, {4, 2}}, {1, 1, 1}};
  const Forest forest(rows, {.trees = 5});
  AdaptCase c;
  c.see({1, 1, 1}, 4);
  c.see({1, 1, 2}, 2);
  EXPECT_FALSE(c.decide(10'000, {.forest = &forest}));
  EXPECT_TRUE(c.decide(10'000));
}

TEST(DynPipeAdaptTest, AMoveSendsTheLayersThatChangeTheirDeviceAndNoOther) {
  AdaptCase c;
  const DynPipeChain chain = chain_of(c.problem, 0);
  const Move move = move_between(c.problem, chain, {4, 8}, {4, 9}, 0.012);
  EXPECT_DOUBLE_EQ(move.bytes, 1'000'000);  // weights and gradients were counted; the gradients stay
  EXPECT_NEAR(move.seconds, 1e-3 + 2 * 0.012, 1e-9);
  EXPECT_DOUBLE_EQ(move_between(c.problem, chain, {4, 8}, {5, 9}, 0).bytes, 2'000'000);
}

TEST(DynPipeAdaptTest, AMoveNamesTheFirstLayerOfEveryStageButTheFirst) {
  AdaptCase c;
  EXPECT_EQ(cuts_before(c.problem, {3, 11}), (Cuts{3, 11}));
  for (const std::vector<int>& wrong : {std::vector<int>{3}, {3, 11, 11}, {0, 3}, {3, 3}, {4, 3}, {3, 12}})
    EXPECT_THROW(cuts_before(c.problem, wrong), InputError);
  const Options options = resolve_options(find_system("dynpipe", "test").options, {{"moves", "7:3/11"}}, "test");
  const auto prescribed = find_system("dynpipe", "test").prescribed(c.problem, options);
  ASSERT_EQ(prescribed.size(), 1u);
  EXPECT_EQ(prescribed.at(7).plan.stages[1].layers, (std::vector<int>{3, 4, 5, 6, 7, 8, 9, 10}));
}

}  // namespace
}  // namespace sluice
