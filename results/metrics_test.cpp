// Metrics of small records worked out by hand.
#include "results/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

namespace sluice {
namespace {

Record measured_run() {
  Record r;
  r.system = "gpipe";
  r.clock = Clock::wall;
  r.workload_facts = {.metric = "accuracy", .target = 0.8};
  return r;
}

TEST(Metrics, ThroughputOnTheWallClockIsAllWorkAfterTheWarmUpOverItsTime) {
  Record r = measured_run();
  r.samples_per_step = 64;
  r.warmup_steps = 2;
  r.step_seconds = {9, 9, 0.5, 0.5, 0.5, 0.5, 0.25, 1.75};
  const Throughput t = throughput(r).value();
  EXPECT_EQ(t.samples_per_second, 96);  // 6 x 64 in 4 s
  EXPECT_EQ(t.steps, 6u);
  EXPECT_EQ(t.median_step, 0.5);
  EXPECT_LT(t.interval.value().low, 96);
  EXPECT_GT(t.interval->high, 96);
  r.step_seconds.pop_back();
  EXPECT_EQ(throughput(r)->interval, std::nullopt);
  r.warmup_steps = 7;
  EXPECT_EQ(throughput(r), std::nullopt);
}

Record simulated_run() {
  Record r = measured_run();
  r.clock = Clock::virtual_clock;
  r.samples_per_step = 8;
  return r;
}

// 1 s and 3 s in turn: 8 samples every 2 s, whichever of them the warm-up or the end of the run leaves out. The median
// step is 1 s, 2 s or 3 s.
TEST(Metrics, ThroughputOfStepsThatAlternateIsThatOfWholePeriods) {
  Record r = simulated_run();
  r.step_seconds = {7, 2};  // the pipe fills
  for (int k = 0; k < 10; ++k) r.step_seconds.insert(r.step_seconds.end(), {1, 3});
  for (int warmup = 0; warmup < 8; ++warmup) {
    r.warmup_steps = warmup;
    EXPECT_EQ(throughput(r)->samples_per_second, 4) << warmup;
    EXPECT_EQ(throughput(r)->interval, std::nullopt);
  }
  r.step_seconds.push_back(1);
  EXPECT_EQ(throughput(r)->samples_per_second, 4);
}

// Two segments of 2, 1, 3, 1, 3, 1, 3 and the drain's 1, 1; stale by 2 updates.
TEST(Metrics, ThroughputLeavesOutHowThePipeFillsAndDrains) {
  Record r = simulated_run();
  for (int segment = 1; segment <= 2; ++segment) {
    r.step_seconds.insert(r.step_seconds.end(), {2, 1, 3, 1, 3, 1, 3, 1, 1});
    r.curve.push_back({9 * segment, 16.0 * segment, 0.5, 0.5});
  }
  r.theory = {.staleness = {2, 1, 0}};
  EXPECT_EQ(throughput(r)->samples_per_second, 4);
  EXPECT_EQ(throughput(r)->steps, 6u);
}

TEST(Metrics, ThroughputOnTheWallClockLeavesOutTheLastStepsOfAStaleRun) {
  Record r = simulated_run();
  r.clock = Clock::wall;
  r.warmup_steps = 1;
  r.step_seconds = {3, 1, 1, 1, 0.25, 0.25};
  EXPECT_DOUBLE_EQ(throughput(r)->samples_per_second, 5 * 8 / 3.5);  // not stale
  r.theory = {.staleness = {2, 1, 0}};
  EXPECT_DOUBLE_EQ(throughput(r)->samples_per_second, 8);
  EXPECT_EQ(throughput(r)->steps, 3u);
  r.step_seconds = {3, 1, 0.25};  // too few are left
  EXPECT_DOUBLE_EQ(throughput(r)->samples_per_second, 2 * 8 / 1.25);
}

TEST(Metrics, ARunThatIsTooShortToBeSteadySaysWhatItsSteadyStateIs) {
  Record r = simulated_run();
  r.step_seconds = {5, 1, 3};
  EXPECT_TRUE(lacks_steady_state(r));
  EXPECT_DOUBLE_EQ(throughput(r)->samples_per_second, 8 / 3.0);  // all that it shows
  r.observed.steady_update_seconds = 2;
  EXPECT_EQ(throughput(r)->samples_per_second, 4);
  r.step_seconds = {5, 1, 1, 1};
  EXPECT_FALSE(lacks_steady_state(r));
  r.theory = {.staleness = {1, 0}};  // while the pipe fills, steps may be equal by chance
  EXPECT_TRUE(lacks_steady_state(r));
  r.clock = Clock::wall;
  r.step_seconds = {5, 1, 3};
  EXPECT_FALSE(lacks_steady_state(r));
}

// Ten steps of 1 s, then ten of 3 s under interference: what repeats is not what the run did.
TEST(Metrics, ThroughputUnderInterferenceIsThatOfTheWholeRun) {
  Record r = simulated_run();
  r.step_seconds.assign(15, 1);
  r.step_seconds.resize(20, 3);
  EXPECT_EQ(throughput(r)->samples_per_second, 8);
  r.observed.interference = RecordedInterference{};
  EXPECT_DOUBLE_EQ(throughput(r)->samples_per_second, 20 * 8 / 30.0);
}

TEST(Metrics, LatencyIsOfTheMicroBatchesAfterWarmUp) {
  Record r = measured_run();
  r.microbatches = 2;
  r.warmup_steps = 1;
  EXPECT_EQ(latency(r), std::nullopt);
  r.observed.latency_seconds = {{9, 9, 1, 2, 3}};
  EXPECT_EQ(latency(r)->median, 2);
  EXPECT_DOUBLE_EQ(latency(r)->percentile_95, 2.9);
  r.outcome = RecordOutcome::failed;
  EXPECT_EQ(latency(r), std::nullopt);
}

TEST(Metrics, InferenceStandsBesideInferenceOnly) {
  Record r = measured_run();
  r.options = {{"task", "inference"}};
  r.optimizer = {.learning_rate = 0.1};
  r.workload_facts->steps = 2;
  EXPECT_EQ(optimizer_text(r), "inference");
  EXPECT_EQ(duration_text(r), "2 batches");
}

TEST(Metrics, OnlyWholeRunsCount) {
  Record r = measured_run();
  r.samples_per_step = 1;
  r.step_seconds = {1, 1};
  r.curve = {{1, 1, 0.5, 0.9}};
  r.peak_bytes = {{.total = 1}};
  for (const RecordOutcome outcome :
       {RecordOutcome::failed, RecordOutcome::unsupported, RecordOutcome::out_of_memory, RecordOutcome::diverged}) {
    r.outcome = outcome;
    EXPECT_FALSE(throughput(r) || time_to_accuracy(r) || final_metric(r) || peak_memory(r));
  }
  r.outcome = RecordOutcome::timed_out;
  EXPECT_TRUE(throughput(r) && time_to_accuracy(r) && final_metric(r) && peak_memory(r));
}

TEST(Metrics, PeakMemoryIsTheLargestOverTheRanks) {
  Record r = measured_run();
  EXPECT_EQ(peak_memory(r), std::nullopt);
  r.predicted_peak_bytes = {{.total = 90}, {.total = 10}};
  EXPECT_EQ(peak_memory(r), 90);
  r.peak_bytes = {{.total = 10}, {.total = 70}};
  EXPECT_EQ(peak_memory(r), 70);
  EXPECT_EQ(measured_peaks(r), (std::vector<std::int64_t>{10, 70}));
  EXPECT_EQ(predicted_peaks(r), (std::vector<std::int64_t>{90, 10}));
  r.clock = Clock::virtual_clock;  // nothing is measured there
  r.predicted_peak_bytes.clear();
  EXPECT_TRUE(measured_peaks(r).empty());
  EXPECT_EQ(predicted_peaks(r), (std::vector<std::int64_t>{10, 70}));
}

TEST(Metrics, TimeToAccuracyIsTheFirstCrossing) {
  Record r = measured_run();
  r.curve = {{10, 1, 0.9, 0.5}, {15, 1.5, 0.8, std::nullopt}, {20, 2, 0.7, 0.8}, {30, 3, 0.6, 0.7}};
  EXPECT_EQ(time_to_accuracy(r), 2);
  EXPECT_EQ(final_metric(r), 0.7);
  EXPECT_EQ(best_metric(r), 0.8);
  r.workload_facts->target = 0.9;
  EXPECT_EQ(time_to_accuracy(r), std::nullopt);
  r.workload_facts->target.reset();
  EXPECT_EQ(time_to_accuracy(r), std::nullopt);
}

// Two segments of 4 updates, evaluated after 4 and 8. Each fills the pipe of 3 ranks in 3 slots of 1 s, and then does
// an update a slot: (3 - 1) s too long, twice.
TEST(Metrics, WithoutDrainTheFirstStepOfASegmentIsAMeanOneOfTheOthers) {
  Record r = measured_run();
  r.theory = {.staleness = {2, 1, 0}};
  r.step_seconds = {3, 1, 1, 1, 3, 1, 1, 1};
  r.curve = {{4, 6, 0.9, 0.5}, {8, 12, 0.7, 0.8}};
  EXPECT_EQ(time_to_accuracy(r), 12);
  EXPECT_EQ(time_to_accuracy_without_drain(r), 8);
  r.workload_facts->target = 0.5;  // reached after the first segment
  EXPECT_EQ(time_to_accuracy_without_drain(r), 4);
  r.theory->staleness = {0, 0, 0};  // every update is a flush: nothing to take out
  EXPECT_EQ(time_to_accuracy_without_drain(r), 6);
  r.theory->staleness = {2, 1, 0};
  r.step_seconds.resize(3);
  EXPECT_EQ(time_to_accuracy_without_drain(r), std::nullopt);
}

// 5 s to fill, 1 s and 3 s in turn, and two fast steps of the drain: 10 updates at 2 s in the steady state. Under
// interference the steps after the first count: (1 + 3 + 1 + 3 + 1 + 3 + 1 + 1 + 1) / 9.
TEST(Metrics, WithoutDrainASimulatedUpdateTakesWhatItTakesInTheSteadyState) {
  Record r = simulated_run();
  r.theory = {.staleness = {2, 1, 0}};
  r.step_seconds = {5, 1, 3, 1, 3, 1, 3, 1, 1, 1};
  r.curve = {{10, 20, 0.5, 0.9}};
  EXPECT_EQ(time_to_accuracy_without_drain(r), 20);  // never more than with them
  r.curve[0].seconds = 25;
  EXPECT_EQ(time_to_accuracy_without_drain(r), 20);
  r.observed.interference = RecordedInterference{};
  EXPECT_DOUBLE_EQ(time_to_accuracy_without_drain(r).value(), 10 * 15 / 9.0);
}

TEST(Metrics, TextsOfWhatMayStandSideBySide) {
  Record r = measured_run();
  EXPECT_EQ(duration_text(r), "");
  EXPECT_EQ(optimizer_text(r), "");
  EXPECT_EQ(learning_rate(r), std::nullopt);
  r.workload_facts->epochs = 1;
  r.optimizer = {.learning_rate = 0.02, .momentum = 0.9};
  EXPECT_EQ(duration_text(r), "1 epoch");
  EXPECT_EQ(optimizer_text(r), "sgd, learning rate 0.02, momentum 0.9");
  EXPECT_EQ(optimizer_text(r, false), "sgd, momentum 0.9");
  r.tuning = {.chosen = 0.02};
  EXPECT_EQ(optimizer_text(r), "sgd, learning rate tuned, momentum 0.9");
  EXPECT_EQ(learning_rate(r), 0.02);
}

TEST(Metrics, LowerMayBeBetter) {
  Record r = measured_run();
  r.workload_facts = {.metric = "perplexity", .metric_direction = MetricDirection::down, .target = 20};
  r.curve = {{1, 1, 3.0, 40.0}, {2, 2, 2.9, std::nan("")}, {3, 3, 2.8, 19.5}, {4, 4, 2.7, 25.0}};
  EXPECT_EQ(time_to_accuracy(r), 3);
  EXPECT_EQ(best_metric(r), 19.5);
  EXPECT_EQ(final_metric(r), 25);
  EXPECT_EQ(metric_name(r), "perplexity");
}

TEST(Metrics, ADivergenceIsAResultThatAFailureDoesNotReplace) {
  std::vector<Record> all(2, measured_run());
  all[0].outcome = RecordOutcome::diverged;
  all[1].outcome = RecordOutcome::failed;
  EXPECT_EQ(latest(all).at(0).outcome, RecordOutcome::diverged);
  std::swap(all[0], all[1]);
  EXPECT_EQ(latest(all).at(0).outcome, RecordOutcome::diverged);
}

TEST(Metrics, LatestPrefersWhatSucceeded) {
  std::vector<Record> all(5, measured_run());
  all[0].digest = "a", all[0].outcome = RecordOutcome::failed;
  all[1].digest = "b", all[1].seed = 1;
  all[2].digest = "a", all[2].seed = 2;
  all[3].digest = "b", all[3].outcome = RecordOutcome::timed_out;
  all[4].digest = "c", all[4].outcome = RecordOutcome::failed;
  const auto kept = latest(all);
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[0].seed, 2u);
  EXPECT_EQ(kept[1].outcome, RecordOutcome::ok);
  EXPECT_EQ(kept[2].outcome, RecordOutcome::failed);
}

TEST(Latest, CasesWithSeveralResultsAreNamedFailuresThatWereRunAgainAreNot) {
  std::vector<Record> all(6);
  for (Record& r : all) r.system = "gpipe", r.workload = "tiny", r.seed = 3;
  all[0].digest = "a", all[0].outcome = RecordOutcome::failed;
  all[1].digest = "a";
  all[2].digest = "b";
  all[3].digest = "b", all[3].outcome = RecordOutcome::diverged;
  all[4].digest = "c";
  all[5].digest = "b", all[5].outcome = RecordOutcome::timed_out;
  EXPECT_EQ(repeated_results(all),
            std::vector<std::string>{"b (gpipe, tiny, seed 3) has 2 results; the last one counts"});
}

}  // namespace
}  // namespace sluice
