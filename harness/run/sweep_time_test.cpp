#include "harness/run/sweep_time.h"

#include <gtest/gtest.h>

#include "harness/base/json.h"
#include "harness/case/sweep.h"
#include "harness/case/test_profiles.h"
#include "harness/run/environment.h"

namespace sluice {
namespace {

std::vector<RunCase> cases(const Json& more) {
  Json entry = {{"system", "one_f_one_b"}, {"workload", "mlp1024"}, {"costs", "analytic"}, {"steps", 100}};
  entry.update(more);
  return expand_case({entry, in_file("s.json")});
}

// One device has trained the workload at `rate` samples a second on this machine's wall clock.
Record record_of_one_device(const std::string& workload, double rate) {
  Record r;
  r.system = "single_device";
  r.workload = workload;
  r.clock = Clock::wall;
  r.device = "cpu";
  r.samples_per_step = 32;
  r.step_seconds.assign(10, 32 / rate);
  r.environment = describe_environment();
  return r;
}

TEST(SweepTime, FollowsTheRecordsOfThisMachine) {
  // mlp1024: 256 samples an update, so 25,600 of them.
  const std::vector<RunCase> wall = cases({{"clock", "wall"}, {"ranks", 2}, {"seed", {1, 2}}});
  const std::vector<Record> records = {record_of_one_device("mlp1024", 1000)};
  const SweepTime time = sweep_time(wall, records, 4, 4);
  EXPECT_EQ(time.wall_cases, 2u);
  EXPECT_NEAR(time.wall_seconds, 2 * (25.6 + kAssumedSecondsWithoutTraining) / 2, 1e-9);  // on two of the cores
  EXPECT_EQ(time.virtual_seconds, 0);
  EXPECT_EQ(time.measured, std::vector<std::string>{"mlp1024"});
  Record elsewhere = records[0];
  elsewhere.environment.machine->cpu = "another";
  const std::vector<Record> of_another = {elsewhere};
  EXPECT_EQ(sweep_time(wall, of_another, 4, 4).assumed, std::vector<std::string>{"mlp1024"});
}

TEST(SweepTime, VirtualCasesRunSideBySideAndWithoutTrainingTakeNextToNothing) {
  const std::vector<Record> records = {record_of_one_device("mlp1024", 1000)};
  const std::vector<RunCase> trained = cases({{"clock", "virtual"}, {"seed", {1, 2, 3, 4}}});
  const double work = 4 * (25.6 + kAssumedSecondsWithoutTraining);
  EXPECT_NEAR(sweep_time(trained, records, 1, 8).virtual_seconds, work, 1e-9);
  EXPECT_NEAR(sweep_time(trained, records, 4, 8).virtual_seconds, work / 4, 1e-9);
  EXPECT_NEAR(sweep_time(trained, records, 4, 2).virtual_seconds, work / 2, 1e-9);
  const std::vector<RunCase> times_only = cases({{"clock", "virtual"}, {"train", false}});
  EXPECT_NEAR(sweep_time(times_only, records, 1, 1).virtual_seconds, kAssumedSecondsWithoutTraining, 1e-9);
}

TEST(SweepTime, WithoutRecordsTheLayersOperationsCount) {
  const std::vector<RunCase> small = cases({{"clock", "virtual"}, {"workload", "tiny"}});
  const std::vector<RunCase> large = cases({{"clock", "virtual"}});
  const double few = work_of(small[0], {})->seconds, many = work_of(large[0], {})->seconds;
  // 8 layers of 1024 x 1024: 3 products of 2 * 8 * 1024^2 operations a sample, 25,600 samples.
  EXPECT_GE(many, 25'600 * 3.0 * 16 * 1024 * 1024 * 0.9 / kAssumedFlops);
  EXPECT_LT(few, many / 10);
}

TEST(SweepTime, CasesOnGpusAreCountedApart) {
  std::vector<RunCase> both = cases({{"clock", "wall"}, {"ranks", 1}});
  const std::vector<RunCase> gpu = cases({{"clock", "wall"}, {"device", "cuda"}, {"seed", {1, 2}}});
  both.insert(both.end(), gpu.begin(), gpu.end());
  const std::vector<Record> records = {record_of_one_device("mlp1024", 1000)};
  const SweepTime time = sweep_time(both, records, 1, 1);
  EXPECT_EQ(time.gpu_cases, 2u);
  EXPECT_EQ(time.wall_cases, 1u);
  EXPECT_NEAR(time.wall_seconds, 25.6 + kAssumedSecondsWithoutTraining, 1e-9);
  EXPECT_NE(to_text(time, 1).find("\n  2 cases on GPUs: not estimated"), std::string::npos) << to_text(time, 1);
  EXPECT_TRUE(to_text(sweep_time(gpu, records, 1, 1), 1).starts_with("time: 2 cases on GPUs: not estimated"));
}

TEST(SweepTime, NothingIsTrainedThatRunsOnGpusOrTakesMinutes) {
  std::vector<RunCase> all = cases({{"clock", "wall"}, {"workload", "gpt2_small"}});
  const std::vector<RunCase> gpu = cases({{"clock", "wall"}, {"device", "cuda"}});
  all.insert(all.end(), gpu.begin(), gpu.end());
  std::vector<std::string> said;
  EXPECT_TRUE(
      measure_speeds(all, {}, test_profiles(), [&](const std::string& workload) { said.push_back(workload); }).empty());
  EXPECT_TRUE(said.empty()) << said.front();
}

TEST(SweepTime, IsSaidWithWhereItIsFrom) {
  const std::string text = to_text(SweepTime{.wall_cases = 3,
                                             .virtual_cases = 4,
                                             .wall_seconds = 7200,
                                             .virtual_seconds = 60,
                                             .measured = {"a"},
                                             .assumed = {"b"},
                                             .unknown = {"c"}},
                                   2);
  for (const char* part :
       {"about 2.0 h", "3 cases on the wall clock", "4 cases on the virtual clock, 2 at a time: 60 s",
        "by what this machine trains a second: a", "GFLOP/s a core and 10 us an op: b", "not here: c"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

}  // namespace
}  // namespace sluice
