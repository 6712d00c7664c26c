#include "results/staleness_cost.h"

#include <gtest/gtest.h>

#include "harness/base/json.h"
#include "results/compare.h"
#include "results/metrics.h"

namespace sluice {
namespace {

// A training with an evaluation every 100 updates that reaches the target of 0.8 after `updates` of them; 0: never.
Record training(const std::string& system, std::uint64_t seed, std::int64_t updates) {
  Record r;
  r.system = system;
  r.digest = system + std::to_string(seed);
  r.workload = "mlp";
  r.workload_facts = WorkloadFacts{};
  r.workload_facts->target = 0.8;
  r.clock = Clock::virtual_clock;
  r.cluster = "flat:2";
  r.ranks = system == "single_device" ? 1 : 2;
  r.seed = seed;
  r.batch = r.samples_per_step = 32;
  for (std::int64_t step = 100; step <= 1000; step += 100)
    r.curve.push_back({step, 0.1 * static_cast<double>(step), 1.0, updates > 0 && step >= updates ? 0.9 : 0.5, {}});
  if (system == "single_device") return r;
  r.observed.staleness = std::vector<int>{1, 0};
  r.predicted_peak_bytes = {{.weights = 300}, {.weights = 100}};
  return r;
}

TEST(StalenessCosts, LambdaIsWhatStalenessAddedToTheUpdatesOfTwoTrainings) {
  EXPECT_NEAR(fitted_lambda(1000, 1100, 0.5), 0.2, 1e-12);
  EXPECT_DOUBLE_EQ(fitted_lambda(1000, 900, 0.5), 0);
  EXPECT_DOUBLE_EQ(fitted_lambda(1000, 1100, 0), 0);
}

TEST(StalenessCosts, UpdatesToTheTargetAreThoseOfTheFirstEvaluationThatReachesIt) {
  EXPECT_EQ(updates_to_target(training("pipedream", 1, 300)), 300);
  EXPECT_EQ(updates_to_target(training("pipedream", 1, 0)), std::nullopt);
}

TEST(StalenessCosts, StalenessIsTheRanksMeanByTheirWeights) {
  EXPECT_DOUBLE_EQ(mean_staleness(training("pipedream", 1, 300)).value(), 0.75);
  EXPECT_EQ(mean_staleness(training("single_device", 1, 300)), std::nullopt);
  Record unknown = training("pipedream", 1, 300);
  unknown.predicted_peak_bytes.clear();
  EXPECT_DOUBLE_EQ(mean_staleness(unknown).value(), 0.5);
}

TEST(StalenessCosts, AreFittedUnderTheSeedsThatReachTheTargetInBoth) {
  const std::vector<Record> records = {training("single_device", 1, 200), training("single_device", 2, 400),
                                       training("single_device", 3, 400), training("pipedream", 1, 500),
                                       training("pipedream", 2, 400),     training("pipedream", 3, 0)};
  const std::vector<StalenessCosts> costs = staleness_costs(compare(records, {}));
  ASSERT_EQ(costs.size(), 1u);
  ASSERT_EQ(costs[0].rows.size(), 1u);
  const StalenessCost& row = costs[0].rows[0];
  EXPECT_EQ(row.seeds, 2);
  EXPECT_DOUBLE_EQ(row.lambda.max, (500.0 / 200 - 1) / 0.75);  // seed 1
  EXPECT_DOUBLE_EQ(row.lambda.min, 0);                         // seed 2
  EXPECT_DOUBLE_EQ(row.lambda.median, 1);
  EXPECT_DOUBLE_EQ(row.without.median, 300);
  EXPECT_NE(to_table(costs).find("--set lambda="), std::string::npos);
  EXPECT_EQ(to_json(costs)[0]["rows"][0]["seeds"], 2);
}

TEST(StalenessCosts, WithoutASingleDeviceOrATargetThereAreNone) {
  EXPECT_TRUE(staleness_costs(compare(std::vector<Record>{training("pipedream", 1, 300)}, {})).empty());
  EXPECT_NE(to_table(std::vector<StalenessCosts>{})
                .find("no workload with a target has runs of single_device and of a system with stale weights"),
            std::string::npos);
  std::vector<Record> never = {training("single_device", 1, 0), training("pipedream", 1, 300)};
  const auto costs = staleness_costs(compare(never, {}));
  ASSERT_EQ(costs.size(), 1u);
  EXPECT_EQ(costs[0].rows[0].seeds, 0);
  EXPECT_NE(to_table(costs).find("not reached"), std::string::npos);
  EXPECT_TRUE(to_json(costs)[0]["rows"][0]["lambda"].is_null());
}

}  // namespace
}  // namespace sluice
