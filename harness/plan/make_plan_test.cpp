#include "harness/plan/make_plan.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/plan/plan_test_support.h"
#include "harness/plan/planner_options.h"

namespace sluice {
namespace {

// A planner of four layers on four devices: under a limit of r replicas two stages, the first of r devices or three.
// Its own objective is the limit: least where a stage has one replica.
std::vector<int> limits;

std::vector<PlannedPipeline> two_stages(const Problem& problem, const Options&) {
  limits.push_back(problem.max_replicas);
  const int replicas = std::min(problem.max_replicas, 3);
  if (replicas == 2) throw InputError("planner", "has no plan of two");
  Plan plan{.stages = {{.layers = {0, 1}, .devices = {}}, {.layers = {2, 3}, .devices = {DeviceId(3)}}}};
  for (int d = 0; d < replicas; ++d) plan.stages.front().devices.emplace_back(d);
  plan.search = {.objective = static_cast<double>(replicas), .states = 10};
  return {plan};
}

class RankedPlans : public testing::Test {
 protected:
  RankedPlans() {
    limits.clear();
    planner_.options = {rank_option(), search_seconds_option()};
    planner_.replicates = [](const Options&) { return true; };
  }

  Plan planned(const std::map<std::string, std::string>& given, int microbatches = 8) {
    Problem problem{costs_, cluster_, 4, microbatches, microbatches, {}};
    problem.simulate = [&](const PlannedPipeline& p) {
      const auto& first = p.plan.stages.front().devices;
      simulated_.push_back(static_cast<int>(first.size()));
      return Seconds(seconds_.at(simulated_.back()));
    };
    return make_plan(planner_, problem, resolve_options(planner_.options, given, "test")).plan;
  }

  CostGraph costs_ = chain_costs({3, 3, 3, 3}, {}, {});
  Cluster cluster_ = machines(1, 4, 1, 1);
  System planner_{.name = "planner",
                  .title = "",
                  .citation = "",
                  .written_from = WrittenFrom::ours,
                  .candidates = two_stages,
                  .schedule = nullptr};
  std::map<int, double> seconds_ = {{1, 5}, {3, 4}, {4, 6}};  // by devices of the first stage
  std::vector<int> simulated_;
};

TEST_F(RankedPlans, ByTheObjectiveThePlannerIsAskedOnce) {
  EXPECT_EQ(planned({}).stages.front().devices.size(), 3u);
  EXPECT_EQ(limits, std::vector{std::numeric_limits<int>::max()});
  EXPECT_TRUE(simulated_.empty());
}

TEST_F(RankedPlans, BySimulationThePlannerIsAskedUnderEveryLimitAndDataParallelismIsACandidate) {
  const Plan best = planned({{"rank", "simulated"}});
  EXPECT_EQ(best.stages.front().devices.size(), 3u);
  EXPECT_EQ(best.search.states, 20);  // of both searches; that of two replicas has no plan
  EXPECT_EQ(limits, (std::vector{std::numeric_limits<int>::max(), 2, 1}));
  EXPECT_EQ(simulated_, (std::vector{3, 1, 4}));
  seconds_[4] = 1;
  const Plan whole = planned({{"rank", "simulated"}});
  ASSERT_EQ(whole.stages.size(), 1u);
  EXPECT_EQ(whole.stages.front().layers, (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(whole.stages.front().devices.size(), 4u);
  seconds_[1] = seconds_[3] = seconds_[4] = std::numeric_limits<double>::infinity();  // nothing fits: the first
  EXPECT_EQ(planned({{"rank", "simulated"}}).stages.front().devices.size(), 3u);
}

TEST_F(RankedPlans, AStageHasAtMostAReplicaAMicroBatch) {
  planned({{"rank", "simulated"}}, 3);
  EXPECT_EQ(simulated_, (std::vector{3, 1}));  // of four replicas one had nothing to do
}

// Without a flush the batch is cut once more for a stage's replicas, so that it may have as many as there are devices.
TEST_F(RankedPlans, ASystemThatUpdatesAfterEveryMicroBatchIsAskedUnderEveryLimitForAnyNumberOfThem) {
  planner_.synchronous = false;
  planned({{"rank", "simulated"}}, 1);
  EXPECT_EQ(limits, (std::vector{std::numeric_limits<int>::max(), 2, 1}));
  EXPECT_EQ(simulated_, (std::vector{3, 1, 4}));
}

TEST_F(RankedPlans, APlannerThatNeverReplicatesIsAskedOnce) {
  planner_.replicates = nullptr;
  planned({{"rank", "simulated"}});
  EXPECT_EQ(limits.size(), 1u);
  EXPECT_TRUE(simulated_.empty());  // one candidate
}

TEST_F(RankedPlans, WithoutASimulatorOnlyTheObjectiveRanks) {
  const Problem problem{costs_, cluster_, 4, 8, 8, {}};
  EXPECT_EQ(error_of([&] {
              make_plan(planner_, problem, resolve_options(planner_.options, {{"rank", "simulated"}}, "test"));
            }),
            "planner: there is no simulator to ask here; use rank=objective");
}

TEST_F(RankedPlans, APlannerWithoutAnyPlanSaysWhy) {
  planner_.candidates = [](const Problem&, const Options&) -> std::vector<PlannedPipeline> {
    throw InputError("planner", "nothing fits");
  };
  EXPECT_EQ(error_of([&] { planned({{"rank", "simulated"}}); }), "planner: nothing fits");
}

}  // namespace
}  // namespace sluice
