#include <gtest/gtest.h>

#include "harness/base/json.h"
#include "harness/case/sweep.h"
#include "harness/case/test_profiles.h"
#include "harness/run/sweep_time.h"

namespace sluice {
namespace {

TEST(SweepSpeed, AFewUpdatesTellWhatNoRecordDoes) {
  const std::vector<RunCase> cases = expand_case({{{"system", {"gpipe", "pipedream"}},
                                                   {"workload", {"tiny", "mlp1024"}},
                                                   {"clock", "virtual"},
                                                   {"batch", 16},
                                                   {"steps", 50}},
                                                  in_file("s.json")});
  std::vector<std::string> said;
  const auto say = [&said](const std::string& workload) { said.push_back(workload); };
  const std::vector<Record> records = measure_speeds(cases, {}, test_profiles(), say);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(said.size(), 2u);
  EXPECT_EQ(seconds_per_sample(records).size(), 2u);
  EXPECT_TRUE(sweep_time(cases, records, 1, 1).assumed.empty());
  EXPECT_TRUE(measure_speeds(cases, records, test_profiles(), say).empty());
  EXPECT_EQ(said.size(), 2u);
}

TEST(SweepSpeed, WhatTrainsNothingIsNotMeasured) {
  const std::vector<RunCase> cases =
      expand_case({{{"system", "gpipe"}, {"workload", "tiny"}, {"clock", "virtual"}, {"train", false}, {"steps", 9}},
                   in_file("s.json")});
  EXPECT_TRUE(measure_speeds(cases, {}, test_profiles(), [](const std::string&) { FAIL(); }).empty());
}

TEST(SweepSpeed, SynchronousSystemsThatTrainAlikeCountOnce) {
  const auto virtual_seconds = [](const Json& systems) {
    const std::vector<RunCase> cases = expand_case(
        {{{"system", systems}, {"workload", "tiny"}, {"clock", "virtual"}, {"ranks", {2, 4}}, {"steps", 50'000}},
         in_file("s.json")});
    return sweep_time(cases, {}, 1, 1).virtual_seconds;
  };
  const double one = virtual_seconds({"gpipe"});  // on two and on four ranks
  EXPECT_NEAR(virtual_seconds({"gpipe", "one_f_one_b"}), one + 2 * kAssumedSecondsWithoutTraining, 1e-9);
  EXPECT_NEAR(virtual_seconds({"gpipe", "pipedream"}), one + virtual_seconds({"pipedream"}), 1e-9);
}

}  // namespace
}  // namespace sluice
