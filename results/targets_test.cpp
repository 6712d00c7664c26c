#include "results/targets.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice {
namespace {

Record trained(const char* system, std::uint64_t seed, double final, MetricDirection direction = MetricDirection::up) {
  Record record;
  record.system = system;
  record.workload = "net";
  record.seed = seed;
  record.outcome = RecordOutcome::ok;
  record.workload_facts = {.metric = "accuracy", .metric_direction = direction, .target = 0.5};
  record.curve = {{.step = 1, .seconds = 1, .loss = 1.0, .metric = final}};
  return record;
}

TEST(Targets, AreNinetyEightPercentOfTheMedianOfThreeSeedsOfASingleDevice) {
  std::vector<Record> records = {trained("single_device", 1, 0.9), trained("single_device", 2, 0.7),
                                 trained("single_device", 3, 0.8), trained("single_device", 4, 0.1),
                                 trained("gpipe", 1, 0.2)};
  EXPECT_DOUBLE_EQ(measured_targets(records).at("net").single_device_value, 0.8);
  EXPECT_DOUBLE_EQ(measured_targets(records).at("net").target, 0.784);
  set_targets(records, measured_targets(records));
  EXPECT_DOUBLE_EQ(records.back().workload_facts->target.value(), 0.784);
}

TEST(Targets, OfAMetricThatFallsAreTheMedianDividedByTheShare) {
  std::vector<Record> records;
  for (const std::uint64_t seed : {1, 2, 3})
    records.push_back(trained("single_device", seed, 98.0 + static_cast<double>(seed), MetricDirection::down));
  EXPECT_DOUBLE_EQ(measured_targets(records).at("net").target, 102.0408);  // 100 / 0.98
}

TEST(Targets, NeedAllThreeSeeds) {
  EXPECT_TRUE(
      measured_targets(std::vector{trained("single_device", 1, 0.9), trained("single_device", 3, 0.9)}).empty());
}

}  // namespace
}  // namespace sluice
