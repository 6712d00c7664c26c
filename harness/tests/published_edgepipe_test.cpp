// EdgePipe's planner on PipeEdge's published profiles: the true optimum of its example, what its released scheduler
// makes of it, and the sweep over link rates. The expected values come from an independent program. Units are the
// released scheduler's: megabytes and megabits of 2^20.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "harness/pipeline/system.h"
#include "harness/plan/make_plan.h"
#include "workloads/profiles/profile.h"

namespace sluice {
namespace {

constexpr const char* kMinnow = "Minnowboard-E3845";
constexpr const char* kRcc = "RCC-VE-C2000";

struct Testbed {
  int minnow = 4, rcc = 4;
  double megabits = 1000;
  double minnow_slowdown = 1;
};

CostGraph profile_of(const std::string& model, const Testbed& testbed) {
  CostGraph costs = load_profile(published_profile_path("pipeedge/models.yml#google/" + model)).costs;
  for (LayerCost& layer : costs.layers)
    for (DeviceTime& time : layer.on)
      if (time.device == kMinnow) time.forward = time.forward * testbed.minnow_slowdown;
  return costs;
}

Cluster cluster_of(const Testbed& testbed) {
  Cluster cluster{.name = "testbed"};
  for (int d = 0; d < testbed.minnow; ++d) cluster.devices.push_back({.name = kMinnow, .memory = Bytes(2'048'000'000)});
  for (int d = 0; d < testbed.rcc; ++d) cluster.devices.push_back({.name = kRcc, .memory = Bytes(8'192'000'000)});
  for (std::size_t a = 0; a < cluster.devices.size(); ++a)
    for (std::size_t b = a + 1; b < cluster.devices.size(); ++b)
      cluster.links.push_back({.from = DeviceId(a), .to = DeviceId(b), .bandwidth = testbed.megabits * 1e6 / 8});
  return cluster;
}

Plan plan_of(const std::string& model, const Testbed& testbed, const std::string& planner) {
  const CostGraph costs = profile_of(model, testbed);
  const Cluster cluster = cluster_of(testbed);
  Problem problem{costs, cluster, testbed.minnow + testbed.rcc, 8, 1, {}};
  problem.inference = true;
  const System& system = find_system("edgepipe", "test");
  return make_plan(system, problem,
                   resolve_options(system.options, {{"planner", planner}, {"units", "binary"}}, "test"))
      .plan;
}

// The period of a plan on the testbed as it is; transfers in units of 2^20.
double true_period(const Plan& plan, const std::string& model, const Testbed& testbed) {
  const CostGraph costs = profile_of(model, testbed);
  const Cluster cluster = cluster_of(testbed);
  double period = 0;
  const auto stages = stage_costs(plan, costs, cluster);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    period = std::max(period, stages[s].forward.value);
    if (s + 1 < stages.size())
      period = std::max(period, static_cast<double>(edge_bytes(plan, costs, StageId(s), StageId(s + 1)).value) /
                                    (testbed.megabits * 1048576 / 8));
  }
  return period;
}

std::vector<std::size_t> sizes(const Plan& plan) {
  std::vector<std::size_t> result;
  for (const PlanStage& stage : plan.stages) result.push_back(stage.layers.size());
  return result;
}

TEST(PublishedEdgePipe, TheOptimumOfTheExampleIsFasterThanTheReleasedSchedule) {
  const Plan plan = plan_of("vit-base-patch16-224", {}, "exact");
  EXPECT_NEAR(plan.search.objective, 1.5487600, 5e-8);
  EXPECT_NEAR(true_period(plan, "vit-base-patch16-224", {}), 1.5487600, 5e-8);
  EXPECT_EQ(plan.stages.size(), 8u);
  // There are others as good, like this one.
  Plan other;
  int layer = 0, device = 0;
  for (const int size : {5, 6, 5, 5, 7, 7, 6, 7}) {
    PlanStage& stage = other.stages.emplace_back();
    stage.devices = {DeviceId(device++)};
    for (int k = 0; k < size; ++k) stage.layers.push_back(layer++);
  }
  EXPECT_NEAR(true_period(other, "vit-base-patch16-224", {}), 1.5487600, 5e-8);
}

TEST(PublishedEdgePipe, TheReleasedSchedulerTakesTheSecondTypeForTheSecondDevice) {
  const Plan plan = plan_of("vit-base-patch16-224", {}, "released");
  EXPECT_EQ(sizes(plan), (std::vector<std::size_t>(8, 6)));  // the example schedule of its README
  EXPECT_NEAR(plan.search.objective, 1.7372666, 1e-7);
  EXPECT_NEAR(true_period(plan, "vit-base-patch16-224", {}), 1.7262477, 5e-8);
}

TEST(PublishedEdgePipe, ImagesPerSecondOfEqualAndMixedBoards) {
  const auto rate = [](const std::string& model, int minnow, int rcc) {
    return 8 / plan_of(model, {.minnow = minnow, .rcc = rcc}, "exact").search.objective;
  };
  EXPECT_NEAR(rate("vit-base-patch16-224", 1, 0), 0.613, 1e-3);
  EXPECT_NEAR(rate("vit-base-patch16-224", 4, 0), 2.385, 1e-3);
  EXPECT_NEAR(rate("vit-base-patch16-224", 8, 0), 4.605, 1e-3);
  EXPECT_NEAR(rate("vit-base-patch16-224", 16, 0), 8.031, 1e-3);
  EXPECT_NEAR(rate("vit-base-patch16-224", 8, 8), 9.990, 1e-3);
  EXPECT_NEAR(rate("vit-large-patch16-224", 4, 0), 0.713, 1e-3);
  EXPECT_NEAR(rate("vit-large-patch16-224", 16, 0), 2.666, 1e-3);
  EXPECT_NEAR(rate("vit-large-patch16-224", 0, 16), 3.304, 1e-3);
  EXPECT_NEAR(rate("vit-large-patch16-224", 8, 8), 3.109, 1e-3);
}

TEST(PublishedEdgePipe, FewerStagesOverSlowerLinks) {
  struct Expected {
    double megabits, period;
    std::size_t stages;
  };
  for (const auto& [megabits, period, stages] :
       {Expected{1000, 0.801, 16}, Expected{100, 0.854, 16}, Expected{50, 0.856, 16}, Expected{20, 1.847, 6},
        Expected{10, 3.694, 3}, Expected{5, 7.388, 2}}) {
    SCOPED_TRACE(megabits);
    const Plan plan = plan_of("vit-base-patch16-224", {.minnow = 8, .rcc = 8, .megabits = megabits}, "exact");
    EXPECT_NEAR(plan.search.objective, period, 1e-3);
    EXPECT_EQ(plan.stages.size(), stages);
  }
}

TEST(PublishedEdgePipe, AnEvenSplitLosesMoreTheMoreBoardsDiffer) {
  for (const auto& [slowdown, ratio] : {std::pair{1.0, 1.24}, {2.0, 1.82}, {4.0, 3.25}, {8.0, 5.73}}) {
    SCOPED_TRACE(slowdown);
    const Testbed testbed{.minnow = 8, .rcc = 8, .minnow_slowdown = slowdown};
    const double exact = plan_of("vit-base-patch16-224", testbed, "exact").search.objective;
    const double even = plan_of("vit-base-patch16-224", testbed, "even").search.objective;
    EXPECT_NEAR(even / exact, ratio, 4e-3 * ratio);
  }
}

}  // namespace
}  // namespace sluice
