// The throughput of a simulated run is the work of its steady state over its time, whatever the warm-up, the length of
// the run and the command that asks.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <vector>

#include "harness/case/predict_update.h"
#include "harness/case/prepare.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"
#include "harness/run/run_case.h"
#include "results/metrics.h"

namespace sluice {
namespace {

RunCase case_of(const Json& entry, int steps) {
  Json all = {{"clock", "virtual"}, {"cluster", "flat:8"}, {"costs", "analytic"}, {"train", false}, {"steps", steps}};
  all.update(entry);
  return resolve({all, in_file("s.json", "/grid/0")});
}

double seconds(const Record& record) {
  return std::accumulate(record.step_seconds.begin(), record.step_seconds.end(), 0.0);
}

double relative(double a, double b) { return std::abs(a / b - 1); }

// 840 is a multiple of every period up to 8: a run that is longer by 840 updates takes longer by 840 steady ones, since
// both fill and drain alike.
constexpr int kMany = 840;

RC_GTEST_PROP(SteadyRate, TimesTheTimeOfMoreUpdatesIsTheirSamples, ()) {
  const Json entry = {{"system", *rc::gen::elementOf(std::vector<std::string>{
                                     "pipedream", "spectrain", "pipeoptim", "pipedream_2bw", "pipemare", "one_f_one_b",
                                     "gpipe", "zero_bubble", "interleaved_1f1b", "single_device"})},
                      {"workload", *rc::gen::elementOf(std::vector<std::string>{"fmnist_cnn", "fmnist_mlp_deep",
                                                                                "sentiment_lstm", "gpt_tiny"})},
                      {"ranks", *rc::gen::inRange(2, 7)}};
  Record first = run_case(case_of(entry, kMany), test_profiles(), {});
  const Record second = run_case(case_of(entry, 2 * kMany), test_profiles(), {});
  if (first.outcome != RecordOutcome::ok) RC_DISCARD(first.reason);
  const double samples = static_cast<double>(first.samples_per_step) * kMany;
  const double rate = throughput(first).value().samples_per_second;
  RC_ASSERT(relative(rate * (seconds(second) - seconds(first)), samples) < 1e-9);
  RC_ASSERT(relative(throughput(second)->samples_per_second, rate) < 1e-9);
  for (int warmup = 0; warmup < 12; ++warmup) {
    first.warmup_steps = warmup;
    RC_ASSERT(relative(throughput(first)->samples_per_second, rate) < 1e-9);
  }
}

TEST(SteadyRate, OfAShortRunIsThatOfALongOneAndOfThePlan) {
  for (const char* system : {"pipedream", "pipedream_2bw", "one_f_one_b"})
    for (const int ranks : {2, 4, 8}) {
      SCOPED_TRACE(std::string(system) + " " + std::to_string(ranks));
      const Json entry = {{"system", system}, {"workload", "fmnist_cnn"}, {"ranks", ranks}, {"microbatches", 8}};
      const Record lengthy = run_case(case_of(entry, kMany), test_profiles(), {});
      const double rate = throughput(lengthy).value().samples_per_second;
      EXPECT_EQ(lengthy.observed.steady_update_seconds, std::nullopt);
      for (const int steps : {1, 2, 5, 12})
        EXPECT_LT(
            relative(throughput(run_case(case_of(entry, steps), test_profiles(), {})).value().samples_per_second, rate),
            1e-9)
            << steps;
      const RunCase c = case_of(entry, 1);
      const Prepared p = prepare(c, test_profiles());
      const double update = simulated_update(p, program_of_updates(p)).value;
      EXPECT_LT(relative(static_cast<double>(lengthy.samples_per_step) / update, rate), 1e-9);
    }
}

// 1F1B without a flush on four stages: steps of 320 and 473 us in turn, 128 samples each.
TEST(SteadyRate, OfPipeDreamOnFourStagesIsNeitherOfItsTwoSteps) {
  const Record r = run_case(case_of({{"system", "pipedream"},
                                     {"workload", "fmnist_cnn"},
                                     {"ranks", 4},
                                     {"cluster", "flat:4"},
                                     {"cuts", "compute"}},
                                    400),
                            test_profiles(), {});
  const Throughput t = throughput(r).value();
  EXPECT_NEAR(t.samples_per_second, 322'726, 1);
  EXPECT_GT(static_cast<double>(r.samples_per_step) / t.median_step, 1.05 * t.samples_per_second);
}

}  // namespace
}  // namespace sluice
