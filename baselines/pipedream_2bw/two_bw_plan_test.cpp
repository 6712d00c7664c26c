#include "baselines/pipedream_2bw/two_bw_plan.h"

#include <gtest/gtest.h>

#include <memory>

#include "harness/base/expect_error.h"
#include "harness/plan/plan_test_support.h"

namespace sluice {
namespace {

Cluster cluster_of(int devices, double bandwidth, std::int64_t memory) {
  Cluster cluster = machines(1, devices, bandwidth, bandwidth);
  for (Device& device : cluster.devices) device.memory = Bytes(memory);
  return cluster;
}

// The paper's choice; of depth 0: nothing fits.
TwoBwPlan two_bw_plan(const CostGraph& costs, const Cluster& cluster, const TwoBwOptions& options) {
  TwoBwPlan best;
  for (const TwoBwPlan& plan : two_bw_plans(costs, cluster, options))
    if (plan.samples_per_second > best.samples_per_second) best = plan;
  return best;
}

TEST(TwoBwPlanTest, FreeCommunicationMakesCopies) {
  const CostGraph costs = chain_costs({3, 3, 3, 3}, {0, 0, 0, 0}, {0, 0, 0, 0});
  const TwoBwPlan best = two_bw_plan(costs, cluster_of(4, 1e9, 1000), {.devices = 4, .batch = 16});
  EXPECT_EQ(best.depth, 1);
  EXPECT_EQ(best.width, 4);
  EXPECT_EQ(best.microbatches, 4);
  EXPECT_FALSE(best.recompute);
  EXPECT_DOUBLE_EQ(best.samples_per_second, 4.0 / 12);
  ASSERT_EQ(best.plan.stages.size(), 1u);
  EXPECT_EQ(best.plan.stages[0].devices.size(), 4u);
  ASSERT_NE(best.plan.search.objective_name, SearchReport().objective_name);
  EXPECT_DOUBLE_EQ(best.plan.search.objective, 12.0 / 4);
}

TEST(TwoBwPlanTest, HeavyWeightsMakeItDeep) {
  // By hand, bandwidth 10, all layers 3 s and 100 bytes of weights, batch 16:
  //   depth 1, width 4, m = 4:  compute 12, all-reduce 2 * 3/4 * 400 / 10 / 4 = 15     4/15
  //   depth 2, width 2, m = 8:  compute 6 + 2*1/10 = 6.2, all-reduce 2 * 1/2 * 200 / 10 / 8 = 2.5
  //                                                                                    2/6.2
  //   depth 4, width 1, m = 16: compute 3 + 2*2/10 = 3.4                               1/3.4
  const CostGraph costs = chain_costs({3, 3, 3, 3}, {100, 100, 100, 100}, {1, 1, 1, 0});
  const TwoBwPlan best = two_bw_plan(costs, cluster_of(4, 10, 100'000), {.devices = 4, .batch = 16});
  EXPECT_EQ(best.depth, 2);
  EXPECT_NEAR(best.samples_per_second, 2 / 6.2, 1e-12);
  EXPECT_EQ(best.plan.stages[1].layers, (std::vector{2, 3}));
  EXPECT_EQ(best.plan.stages[1].devices, (std::vector{DeviceId(2), DeviceId(3)}));
}

TEST(TwoBwPlanTest, RecomputesOnlyWhereMemoryAsksForIt) {
  // Two stages of two layers that keep 10 bytes each; 1 byte goes in. Without recomputation stage 0
  // holds 2 * 20, with it 2 * 0 + 20.
  CostGraph costs = chain_costs({3, 3, 3, 3}, {50, 50, 50, 50}, {10, 10, 10, 10});
  TwoBwOptions options{.devices = 2, .batch = 8};
  const TwoBwPlan roomy = two_bw_plan(costs, cluster_of(2, 1e9, 240), options);
  EXPECT_EQ(roomy.depth, 2);
  EXPECT_FALSE(roomy.recompute);
  const TwoBwPlan tight = two_bw_plan(costs, cluster_of(2, 1e9, 230), options);
  EXPECT_TRUE(tight.recompute);
  EXPECT_NEAR(tight.samples_per_second, 1.0 / 8, 1e-6);  // 6 s and 2 s of forward again
  options.may_recompute = false;
  EXPECT_EQ(two_bw_plan(costs, cluster_of(2, 1e9, 230), options).samples_per_second, 0);
}

TEST(TwoBwPlanTest, LargerMicroBatchesCostInProportion) {
  const CostGraph costs = chain_costs({3, 3}, {1000, 1000}, {0, 0});
  const TwoBwPlan best =
      two_bw_plan(costs, cluster_of(2, 10, 100'000), {.devices = 2, .batch = 8, .micro_batches = {1, 2, 3}});
  EXPECT_EQ(best.depth, 2);  // no gain from size alone: the first of equals
  EXPECT_EQ(best.plan.micro_batch, 1);
  EXPECT_NEAR(best.samples_per_second, 1.0 / 3, 1e-12);
}

TEST(TwoBwPlanTest, LargerMicroBatchesCostWhatTheyAreSaidToCost) {
  // Twice the samples in the time of one: the larger the better, as long as there are as many
  // micro-batches as stages.
  const CostGraph costs = chain_costs({3, 3}, {1000, 1000}, {0, 0});
  TwoBwOptions options{.devices = 2, .batch = 8, .micro_batches = {1, 2, 4, 8}};
  options.costs_at = [&](std::int64_t b) {
    auto larger = std::make_shared<CostGraph>(costs);
    larger->micro_batch = b;
    return larger;
  };
  const TwoBwPlan best = two_bw_plan(costs, cluster_of(2, 10, 100'000), options);
  EXPECT_EQ(best.depth, 2);
  EXPECT_EQ(best.plan.micro_batch, 4);
  EXPECT_EQ(best.microbatches, 2);
  EXPECT_NEAR(best.samples_per_second, 4.0 / 3, 1e-12);
}

TEST(TwoBwPlanTest, AFootprintCountsGradientsAndTheOptimizerToo) {
  // By the paper 2 * 100 + 2 * 20 bytes on stage 0; with gradients 100 more.
  const CostGraph costs = chain_costs({3, 3, 3, 3}, {50, 50, 50, 50}, {10, 10, 10, 10});
  TwoBwOptions options{.devices = 2, .batch = 8, .may_recompute = false};
  EXPECT_EQ(two_bw_plan(costs, cluster_of(2, 1e9, 250), options).depth, 2);
  options.footprint = [](std::span<const int> layers) {
    const auto n = static_cast<std::int64_t>(layers.size());
    return Problem::Footprint{Bytes(100 * n), Bytes(0), Bytes(10 * n)};
  };
  EXPECT_EQ(two_bw_plan(costs, cluster_of(2, 1e9, 250), options).depth, 0);
  EXPECT_EQ(two_bw_plan(costs, cluster_of(2, 1e9, 340), options).depth, 2);
}

TEST(TwoBwPlanTest, OutOfTimeKeepsAPlan) {
  const CostGraph costs = chain_costs({3, 3, 3, 3}, {1000, 1000, 1000, 1000}, {0, 0, 0, 0});
  TwoBwOptions options{.devices = 4, .batch = 16, .limits = {.seconds = 0}};
  const TwoBwPlan best = two_bw_plan(costs, cluster_of(4, 10, 1'000'000), options);
  EXPECT_EQ(best.depth, 1);  // the first that was looked at; 4 is faster
  EXPECT_FALSE(best.plan.search.complete);
  options.limits = {};
  EXPECT_EQ(two_bw_plan(costs, cluster_of(4, 10, 1'000'000), options).depth, 4);
}

TEST(TwoBwPlanTest, AsksForAsManyMicroBatchesAsStages) {
  const CostGraph costs = chain_costs({3, 3, 3, 3}, {1000, 1000, 1000, 1000}, {0, 0, 0, 0});
  const TwoBwPlan best = two_bw_plan(costs, cluster_of(4, 10, 1'000'000), {.devices = 4, .batch = 2});
  EXPECT_EQ(best.depth, 0);  // 4 stages of 2 micro-batches, 2 of 1, 1 of none: all rejected
  EXPECT_NE(error_of([&] { two_bw_plan(costs, cluster_of(4, 10, 1), {.devices = 0}); }), "no error");
}

}  // namespace
}  // namespace sluice
