// What a run leaves in its record: a curve whose seconds hold the training, with filling and
// draining, and not the evaluation; and all that was done before a divergence.
#include "harness/run/run_case.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "harness/run/test_data.h"
#include "results/metrics.h"
#include "results/stability.h"

namespace sluice {
namespace {

using nlohmann::json;

class RunCaseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-run-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    write_test_data(folder_);
    ::setenv("SLUICE_DATA", folder_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("SLUICE_DATA");
    std::filesystem::remove_all(folder_);
  }

  // 20 updates of 32 samples an epoch.
  static Record run(const json& more) {
    json entry = {{"system", "pipedream"}, {"workload", "fmnist_mlp"}, {"ranks", 4},
                  {"batch", 32},           {"clock", "virtual"},       {"epochs", 2}};
    entry.update(more);
    return run_case(expand_case(entry, "s.json", "").at(0), {});
  }
  static double sum(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
  }

  std::string folder_;
};

TEST_F(RunCaseTest, SecondsAreThoseOfTheStepsWithoutTheEvaluations) {
  for (const char* clock : {"virtual", "wall"}) {
    for (const char* system : {"one_f_one_b", "pipedream"}) {
      const Record r = run({{"system", system},
                            {"clock", clock},
                            {"costs", "analytic"},
                            {"evaluations_per_epoch", 2}});
      ASSERT_EQ(r.outcome, "ok") << r.reason;
      ASSERT_EQ(r.curve.size(), 4u);
      ASSERT_EQ(r.step_seconds.size(), 40u);
      // On the wall clock a segment ends a little after its last step, when all ranks have left.
      const double steps = sum(r.step_seconds), all = r.curve.back().seconds;
      EXPECT_GE(all, steps * (1 - 1e-9));
      if (std::string(clock) == "virtual") {
        EXPECT_NEAR(all, steps, 1e-9 * all) << system;
      }
    }
  }
}

TEST_F(RunCaseTest, MoreEvaluationsCostAnAsynchronousPipeItsDrainsAndASynchronousOneNothing) {
  const auto seconds = [&](const char* system, int evaluations) {
    return run({{"system", system}, {"evaluations_per_epoch", evaluations}}).curve.back().seconds;
  };
  EXPECT_NEAR(seconds("one_f_one_b", 4), seconds("one_f_one_b", 1), 1e-9);
  EXPECT_GT(seconds("pipedream", 4), 1.05 * seconds("pipedream", 1));
}

TEST_F(RunCaseTest, WithoutDrainTheNumberOfEvaluationsHardlyMatters) {
  const auto without_drain = [&](int evaluations) {
    Record r = run({{"evaluations_per_epoch", evaluations}});
    r.workload_facts["target"] = *r.curve.back().metric;  // reached by the last evaluation
    for (CurvePoint& point : r.curve)
      if (&point != &r.curve.back()) point.metric = 0;
    EXPECT_GT(*time_to_accuracy(r), *time_to_accuracy_without_drain(r));
    return *time_to_accuracy_without_drain(r);
  };
  const double once = without_drain(1), often = without_drain(4);
  EXPECT_NEAR(often / once, 1, 0.03);
}

TEST_F(RunCaseTest, ADivergenceKeepsEveryLossOfItsUnfinishedSegment) {
  for (const char* clock : {"virtual", "wall"}) {
    for (const char* system : {"single_device", "one_f_one_b", "pipedream"}) {
      SCOPED_TRACE(std::string(system) + " " + clock);
      const Record r = run({{"system", system},
                            {"clock", clock},
                            {"costs", "analytic"},
                            {"optimizer", {{"learning_rate", 3}}}});
      EXPECT_EQ(r.outcome, "diverged");
      ASSERT_TRUE(r.diverged_at);
      EXPECT_GT(*r.diverged_at, 1);
      EXPECT_EQ(r.reason, "at update " + std::to_string(*r.diverged_at) +
                              ": the training loss is not finite");
      EXPECT_EQ(r.failed_rank, std::nullopt);
      // One point an update, the last one what is not a number.
      ASSERT_EQ(r.curve.size(), static_cast<std::size_t>(*r.diverged_at));
      for (std::size_t u = 0; u < r.curve.size(); ++u) {
        EXPECT_EQ(r.curve[u].step, static_cast<std::int64_t>(u) + 1);
        EXPECT_EQ(std::isfinite(*r.curve[u].loss), u + 1 < r.curve.size());
        if (u > 0) {
          EXPECT_GE(r.curve[u].seconds, r.curve[u - 1].seconds);
        }
      }
      EXPECT_NEAR(*r.curve.front().loss, std::log(10), 0.5);
      EXPECT_LT(r.step_seconds.size(), r.curve.size());
      EXPECT_FALSE(final_metric(r) || throughput(r));
    }
  }
}

TEST_F(RunCaseTest, SynchronousSystemsDivergeWhereTheSingleDeviceDoes) {
  const json more = {{"optimizer", {{"learning_rate", 3}}}};
  json single = more, pipeline = more;
  single["system"] = "single_device";
  pipeline["system"] = "one_f_one_b";
  EXPECT_EQ(run(single).diverged_at, run(pipeline).diverged_at);
}

TEST_F(RunCaseTest, EvaluationsBeforeTheDivergenceStay) {
  // An evaluation after every update, so that some come before the loss overflows.
  const Record r = run({{"optimizer", {{"learning_rate", 0.6}}}, {"evaluations_per_epoch", 20}});
  ASSERT_EQ(r.outcome, "diverged");
  std::size_t evaluated = 0;
  for (const CurvePoint& point : r.curve) evaluated += point.metric.has_value();
  EXPECT_GT(evaluated, 0u);
  EXPECT_LE(evaluated, static_cast<std::size_t>(*r.diverged_at));
}

TEST_F(RunCaseTest, ATuningCandidateOfStepsIsEvaluatedOnceAtItsEnd) {
  RunCase c = expand_case({{"system", "one_f_one_b"},
                           {"workload", "fmnist_mlp"},
                           {"batch", 32},
                           {"clock", "virtual"},
                           {"steps", 12}},
                          "s.json", "")
                  .at(0);
  EXPECT_EQ(final_metric(run_case(c, {})), std::nullopt);
  c.purpose = "tune";
  const Record r = run_case(c, {});
  EXPECT_EQ(r.purpose, "tune");
  ASSERT_EQ(r.curve.size(), 12u);
  EXPECT_TRUE(r.curve[11].metric);
  EXPECT_FALSE(r.curve[10].metric);
}

TEST_F(RunCaseTest, ABoundaryRunIsStableAtASmallRateAndNotAtALargeOne) {
  const auto at_rate = [&](double rate) {
    return stability_of(run({{"epochs", 0},
                             {"steps", 40},
                             {"purpose", "boundary"},
                             {"optimizer", {{"learning_rate", rate}}}}));
  };
  EXPECT_EQ(at_rate(0.02), Stability::stable);
  EXPECT_EQ(at_rate(3), Stability::diverged);
}

}  // namespace
}  // namespace sluice
