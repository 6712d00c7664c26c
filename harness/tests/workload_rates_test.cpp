// The rule for a workload's own learning rate, checked against the largest stable rates in the records
// (results/README.md).
#include <gtest/gtest.h>
#include <sluice_build.h>

#include "results/stability.h"
#include "results/store.h"
#include "workloads/models/registry.h"

namespace sluice {
namespace {

TEST(WorkloadRates, AreAtMostAQuarterOfTheLargestThatOneDeviceStands) {
  const std::vector<Record> records = read_records(SLUICE_SOURCE_DIR "/results/reference/rates.jsonl").records;
  const std::vector<StableRates> all = stable_rates(records);
  ASSERT_GE(all.size(), 8u);
  for (const StableRates& of : all) {
    const std::optional<double> largest = of.rows.at(0).largest;
    ASSERT_TRUE(largest) << of.workload;
    EXPECT_LE(find_workload(of.workload).optimizer.lr, *largest / 4) << of.workload;
    EXPECT_GE(of.seeds.size(), 3u) << of.workload;
  }
}

}  // namespace
}  // namespace sluice
