// What a run leaves in its record: a curve whose seconds hold the training, with filling and draining, and not the
// evaluation; and all that was done before a divergence.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <thread>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/case/sweep.h"
#include "harness/case/test_profiles.h"
#include "harness/exec/pinning.h"
#include "harness/model/cost_graph.h"
#include "harness/run/run_case.h"
#include "harness/tests/test_data.h"
#include "results/metrics.h"
#include "results/stability.h"
#include "workloads/models/registry.h"

namespace sluice {
namespace {

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
  static Record run(const Json& more) {
    Json entry = {{"system", "pipedream"}, {"workload", "fmnist_mlp"}, {"ranks", 4},
                  {"batch", 32},           {"clock", "virtual"},       {"epochs", 2}};
    entry.update(more);
    return run_case(expand_case({entry, in_file("s.json")}).at(0), test_profiles(), {});
  }
  static void expect_same_training(const Record& a, const Record& b) {
    ASSERT_EQ(a.outcome, RecordOutcome::ok) << a.reason;
    ASSERT_EQ(a.curve.size(), b.curve.size());
    for (std::size_t k = 0; k < b.curve.size(); ++k) {
      EXPECT_EQ(a.curve[k].loss, b.curve[k].loss) << k;
      EXPECT_EQ(a.curve[k].metric, b.curve[k].metric) << k;
    }
    EXPECT_EQ(a.observed.adaptation.value().moves, b.observed.adaptation.value().moves);
  }
  static double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

  std::string folder_;
};

// With links this slow Piper takes one of the four devices; it is compared with what others make of
// four all the same.
TEST_F(RunCaseTest, AnOrderFromAFileTrainsAsTheSystemWhoseOrderItIs) {
  const std::string file = folder_ + "/order.csv";
  std::ofstream(file) << "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
  const Json common = {{"ranks", 2}, {"microbatches", 2}, {"epochs", 1}};
  for (const char* clock : {"virtual", "wall"}) {
    Json given = common, published = common;
    given.update({{"system", "file:" + file}, {"clock", clock}});
    published.update({{"system", "one_f_one_b"}, {"clock", clock}});
    const Record a = run(given), b = run(published);
    ASSERT_EQ(a.outcome, RecordOutcome::ok) << a.reason;
    ASSERT_EQ(a.curve.size(), b.curve.size());
    for (std::size_t k = 0; k < b.curve.size(); ++k) EXPECT_EQ(a.curve[k].loss, b.curve[k].loss) << clock << k;
  }
}

TEST_F(RunCaseTest, DevicesThatAPlannerLeavesIdleCountAsGiven) {
  const Json slow = {{"cluster", "flat:4,bandwidth=1MiB/s"}, {"costs", "analytic"}};
  Json piper = slow, one = slow;
  piper["system"] = "piper";
  one["system"] = "single_device";
  const Record r = run(piper);
  EXPECT_EQ(r.ranks, 4);
  EXPECT_EQ(r.peak_bytes.size(), 1U);
  EXPECT_EQ(run(one).ranks, 1);
}

TEST_F(RunCaseTest, SecondsAreThoseOfTheStepsWithoutTheEvaluations) {
  for (const char* clock : {"virtual", "wall"}) {
    for (const char* system : {"one_f_one_b", "pipedream"}) {
      const Record r = run({{"system", system}, {"clock", clock}, {"costs", "analytic"}, {"evaluations_per_epoch", 2}});
      ASSERT_EQ(r.outcome, RecordOutcome::ok) << r.reason;
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
    r.workload_facts->target = r.curve.back().metric;  // reached by the last evaluation
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
      const Record r =
          run({{"system", system}, {"clock", clock}, {"costs", "analytic"}, {"optimizer", {{"learning_rate", 3}}}});
      EXPECT_EQ(r.outcome, RecordOutcome::diverged);
      ASSERT_TRUE(r.diverged_at);
      EXPECT_GT(*r.diverged_at, 1);
      EXPECT_EQ(r.reason, "at update " + std::to_string(*r.diverged_at) + ": the training loss is not finite");
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
  const Json more = {{"optimizer", {{"learning_rate", 3}}}};
  Json single = more, pipeline = more;
  single["system"] = "single_device";
  pipeline["system"] = "one_f_one_b";
  EXPECT_EQ(run(single).diverged_at, run(pipeline).diverged_at);
}

TEST_F(RunCaseTest, EvaluationsBeforeTheDivergenceStay) {
  // An evaluation after every update, so that some come before the loss overflows.
  const Record r = run({{"optimizer", {{"learning_rate", 0.6}}}, {"evaluations_per_epoch", 20}});
  ASSERT_EQ(r.outcome, RecordOutcome::diverged);
  std::size_t evaluated = 0;
  for (const CurvePoint& point : r.curve) evaluated += point.metric.has_value();
  EXPECT_GT(evaluated, 0u);
  EXPECT_LE(evaluated, static_cast<std::size_t>(*r.diverged_at));
}

TEST_F(RunCaseTest, ATuningCandidateOfStepsIsEvaluatedOnceAtItsEndOnTheValidationPart) {
  std::filesystem::create_directories(folder_ + "/movie-reviews");
  const auto put = [&](const char* part, int sentences, const char* good) {
    std::ofstream file(folder_ + "/movie-reviews/" + part + ".tsv");
    file << "sentence\tlabel\n";
    for (int k = 0; k < sentences; ++k)
      file << "film " << k % 40 << (k % 2 == 0 ? good : " is dull") << "\t" << (k % 2 == 0) << "\n";
  };
  put("train", 640, " is fine");
  put("dev", 64, " is fine");
  put("test", 64, " is dull");  // which nobody can tell apart
  RunCase c = expand_case({{{"system", "one_f_one_b"},
                            {"workload", "sentiment_transformer"},
                            {"batch", 32},
                            {"clock", "virtual"},
                            {"costs", "analytic"},
                            {"steps", 12}},
                           in_file("s.json")})
                  .at(0);
  EXPECT_EQ(final_metric(run_case(c, test_profiles(), {})), std::nullopt);
  c.purpose = Purpose::tune;
  const Record r = run_case(c, test_profiles(), {});
  EXPECT_EQ(r.purpose, Purpose::tune);
  ASSERT_EQ(r.curve.size(), 12u);
  ASSERT_TRUE(r.curve[11].metric);
  EXPECT_GT(*r.curve[11].metric, 0.6);  // 0.5 on the test part
  EXPECT_FALSE(r.curve[10].metric);
}

TEST_F(RunCaseTest, WithoutAValidationPartACandidateNeverSeesTheTestPart) {
  RunCase c =
      expand_case(
          {{{"system", "one_f_one_b"}, {"workload", "fmnist_mlp"}, {"batch", 32}, {"clock", "virtual"}, {"steps", 12}},
           in_file("s.json")})
          .at(0);
  c.purpose = Purpose::tune;
  const Record r = run_case(c, test_profiles(), {});
  ASSERT_EQ(r.curve.size(), 12u);
  EXPECT_FALSE(r.curve[11].metric);
  EXPECT_TRUE(r.curve[11].loss);
}

TEST_F(RunCaseTest, ABoundaryRunIsStableAtASmallRateAndNotAtALargeOne) {
  const auto at_rate = [&](double rate) {
    return stability_of(
        run({{"epochs", 0}, {"steps", 40}, {"purpose", "boundary"}, {"optimizer", {{"learning_rate", rate}}}}));
  };
  EXPECT_EQ(at_rate(0.02), Stability::stable);
  EXPECT_EQ(at_rate(3), Stability::diverged);
}

TEST_F(RunCaseTest, LeftoverMicroBatchesMakeOneMoreUpdateAnEpochOrNone) {
  // 640 samples are 13 updates of 6 micro-batches of 8, and 2 micro-batches.
  const auto with = [&](const char* leftover, const char* clock) {
    return run({{"system", "pipedream_2bw"},
                {"batch", 48},
                {"microbatches", 6},
                {"clock", clock},
                {"costs", "analytic"},
                {"leftover", leftover}});
  };
  for (const char* clock : {"virtual", "wall"}) {
    const Record dropped = with("drop", clock), partial = with("partial", clock);
    ASSERT_EQ(partial.outcome, RecordOutcome::ok) << partial.reason;
    EXPECT_EQ(dropped.updates_per_epoch, 13);
    EXPECT_EQ(partial.updates_per_epoch, 14);
    EXPECT_EQ(partial.curve.back().step, 28);
    EXPECT_EQ(partial.step_seconds.size(), 28u);
    EXPECT_NE(partial.digest, dropped.digest);
  }
}

TEST_F(RunCaseTest, SnapshotsAreEvaluatedWithoutDrainingAndSaveItsTime) {
  const Record drained = run(Json::object()), running = run({{"evaluation", "snapshot"}});
  ASSERT_EQ(running.outcome, RecordOutcome::ok) << running.reason;
  ASSERT_EQ(running.curve.size(), drained.curve.size());
  for (std::size_t k = 0; k < running.curve.size(); ++k) {
    EXPECT_EQ(running.curve[k].step, drained.curve[k].step);
    EXPECT_TRUE(running.curve[k].metric.has_value());
  }
  EXPECT_EQ(running.curve[0].metric, drained.curve[0].metric);  // nothing was drained before it
  EXPECT_LT(running.curve[1].seconds, drained.curve[1].seconds);
  EXPECT_NE(running.digest, drained.digest);
}

TEST_F(RunCaseTest, ATimelineHasGathersAndReductionsBesideTheOps) {
  const Json once = {{"system", "zeropp"}, {"data_parallel", 2}, {"microbatches", 8}, {"epochs", 1}};
  for (const char* clock : {"virtual", "wall"}) {
    Json entry = once;
    entry["clock"] = clock;
    const Record record = run(entry);
    ASSERT_EQ(record.outcome, RecordOutcome::ok) << record.reason;
    std::map<std::string, int> on_rank_0;
    for (const TimelineOp& op : record.timeline) {
      EXPECT_GE(op.start, 0);
      EXPECT_GE(op.end, op.start);
      if (op.rank == 0) ++on_rank_0[op.op.substr(0, op.op.find(' '))];
    }
    // Four micro-batches of each pipeline are two of ZeroPP's units: 2 (2 v - 2) + 1 gathers, 2 v reduce-scatters.
    EXPECT_EQ(on_rank_0["gather"], 5) << clock;
    EXPECT_EQ(on_rank_0["reduce_scatter"], 4) << clock;
  }
}

TEST_F(RunCaseTest, ATimelineShowsAnOverlappedPairAsOneStep) {
  for (const char* clock : {"virtual", "wall"}) {
    const Record record =
        run({{"system", "dualpipe"}, {"ranks", 2}, {"microbatches", 8}, {"epochs", 1}, {"clock", clock}});
    ASSERT_EQ(record.outcome, RecordOutcome::ok) << record.reason;
    int pairs = 0, apart = 0;
    for (const TimelineOp& op : record.timeline) {
      pairs += op.op.starts_with("(") && op.op.find(';') != std::string::npos;
      apart += std::isdigit(op.op[0]) != 0;
    }
    EXPECT_GT(pairs, 0) << clock;
    EXPECT_GT(apart, 0) << clock;  // before and after the steady state
  }
}

TEST_F(RunCaseTest, AnInterruptedCaseGoesOnFromItsCheckpointToTheSameRecord) {
  const Json entry = {{"system", "pipeoptim"},
                      {"workload", "fmnist_mlp"},
                      {"ranks", 3},
                      {"batch", 32},
                      {"clock", "virtual"},
                      {"epochs", 3},
                      {"optimizer", {{"schedule", {{"kind", "polynomial"}, {"power", 2}}}}}};
  const RunCase c = expand_case({entry, in_file("s.json")}).at(0);
  const Record whole = run_case(c, test_profiles(), {});
  const std::string folder = folder_ + "/checkpoints";
  std::atomic<bool> cancel = false;
  const auto stop_in_the_second_epoch = [&](double fraction) {
    if (fraction <= 0.5) return;
    cancel = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until it is seen
  };
  EXPECT_THROW(run_case(c, test_profiles(), {&cancel, stop_in_the_second_epoch, folder}), Cancelled);
  EXPECT_FALSE(std::filesystem::is_empty(folder));
  const Record resumed = run_case(c, test_profiles(), {.checkpoints = folder});
  ASSERT_EQ(resumed.outcome, RecordOutcome::ok) << resumed.reason;
  EXPECT_EQ(resumed.step_seconds, whole.step_seconds);
  ASSERT_EQ(resumed.curve.size(), whole.curve.size());
  for (std::size_t k = 0; k < whole.curve.size(); ++k) {
    EXPECT_EQ(resumed.curve[k].metric, whole.curve[k].metric);
    EXPECT_EQ(resumed.curve[k].loss, whole.curve[k].loss);
    EXPECT_EQ(resumed.curve[k].seconds, whole.curve[k].seconds);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));  // what is finished needs none
}

// The rank dies in the first move, which comes after the first epoch's checkpoint.
TEST_F(RunCaseTest, ARankThatDiesWhileLayersMoveFailsTheRunAndWhatTheCheckpointHeldIsKept) {
  Json entry = {
      {"system", "dynpipe"}, {"workload", "fmnist_mlp_deep"}, {"ranks", 2}, {"batch", 32}, {"clock", "virtual"},
      {"costs", "analytic"}, {"options", {{"window", 5}}},    {"epochs", 3}};
  const Record undisturbed = run_case(expand_case({entry, in_file("s.json")}).at(0), test_profiles(), {});
  ASSERT_EQ(undisturbed.outcome, RecordOutcome::ok) << undisturbed.reason;
  entry["interference"] = "compute:1@" + std::to_string(1.05 * undisturbed.curve.at(0).seconds) + "-x4";
  const Record moved = run_case(expand_case({entry, in_file("s.json")}).at(0), test_profiles(), {});
  ASSERT_EQ(moved.observed.adaptation.value().changes.size(), 1u);
  EXPECT_GT(moved.observed.adaptation->changes[0].update, 20);
  entry["inject_failure"] = {{"rank", 1}, {"move", 0}};
  const RunCase c = expand_case({entry, in_file("s.json")}).at(0);
  const std::string folder = folder_ + "/checkpoints";
  const Record failed = run_case(c, test_profiles(), {.checkpoints = folder});
  EXPECT_EQ(failed.outcome, RecordOutcome::failed);
  EXPECT_EQ(failed.failed_rank, 1);
  EXPECT_NE(failed.reason.find("while layers move"), std::string::npos) << failed.reason;
  EXPECT_FALSE(std::filesystem::is_empty(folder));
  const Record resumed = run_case(c, test_profiles(), {.checkpoints = folder});
  expect_same_training(resumed, moved);
  EXPECT_EQ(resumed.step_seconds, moved.step_seconds);
  EXPECT_EQ(resumed.curve.back().seconds, moved.curve.back().seconds);
  EXPECT_EQ(resumed.observed.adaptation->oracle_seconds, moved.observed.adaptation->oracle_seconds);
}

// On either clock, and after an interruption between its moves.
TEST_F(RunCaseTest, TheMovesOfARecordPrescribedGiveItsTrainingBitForBit) {
  Json entry = {
      {"system", "dynpipe"}, {"workload", "fmnist_mlp_deep"}, {"ranks", 2}, {"batch", 32}, {"clock", "virtual"},
      {"costs", "analytic"}, {"options", {{"window", 5}}},    {"epochs", 4}};
  const Record undisturbed = run_case(expand_case({entry, in_file("s.json")}).at(0), test_profiles(), {});
  const double epoch = undisturbed.curve.at(0).seconds;
  entry["interference"] =
      "compute:1@" + std::to_string(1.05 * epoch) + "-x4,compute:0@" + std::to_string(2.5 * epoch) + "-x9";
  const Record found = run_case(expand_case({entry, in_file("s.json")}).at(0), test_profiles(), {});
  ASSERT_GE(found.observed.adaptation.value().changes.size(), 2u);
  entry.erase("interference");
  entry["options"]["moves"] = found.observed.adaptation->moves;
  for (const char* clock : {"virtual", "wall"}) {
    SCOPED_TRACE(clock);
    entry["clock"] = clock;
    expect_same_training(run_case(expand_case({entry, in_file("s.json")}).at(0), test_profiles(), {}), found);
    entry["inject_failure"] = {{"rank", 1}, {"move", 1}};
    const RunCase c = expand_case({entry, in_file("s.json")}).at(0);
    entry.erase("inject_failure");
    const std::string folder = folder_ + "/checkpoints";
    EXPECT_EQ(run_case(c, test_profiles(), {.checkpoints = folder}).outcome, RecordOutcome::failed);
    expect_same_training(run_case(c, test_profiles(), {.checkpoints = folder}), found);
  }
}

TEST_F(RunCaseTest, AFailureInAMoveThatDoesNotComeIsNoResult) {
  const Record record =
      run({{"system", "dynpipe"}, {"costs", "analytic"}, {"inject_failure", {{"rank", 1}, {"move", 0}}}});
  EXPECT_EQ(record.outcome, RecordOutcome::failed);
  EXPECT_NE(record.reason.find("layers moved 0 times"), std::string::npos) << record.reason;
}

TEST_F(RunCaseTest, PipeMaresFirstEpochsMayBeSynchronous) {
  // One batch in the pipeline at a time: the numbers of plain training, while it lasts.
  const Record plain = run({{"system", "single_device"}, {"microbatches", 1}});
  const Record mare = run({{"system", "pipemare"}, {"options", {{"synchronous_epochs", 1}}}});
  ASSERT_EQ(mare.outcome, RecordOutcome::ok) << mare.reason;
  EXPECT_NEAR(*mare.curve[0].loss, *plain.curve[0].loss, 1e-5);
  EXPECT_GT(std::abs(*mare.curve[1].loss - *plain.curve[1].loss), 1e-5);
  const Record rejected =
      run({{"system", "pipemare"}, {"evaluation", "snapshot"}, {"options", {{"synchronous_epochs", 1}}}});
  EXPECT_EQ(rejected.outcome, RecordOutcome::unsupported);
}

// Bytes of a kind that all ranks of a record send.
std::int64_t sent(const Record& record, SentKind kind) {
  const std::vector<std::int64_t>& bytes = bytes_of(record.observed.sent_bytes.value(), kind);
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

TEST_F(RunCaseTest, PinnedRanksAreNamedWithTheirCoresOrRejected) {
  const Json steps = {{"clock", "wall"}, {"costs", "analytic"}, {"epochs", 0}, {"steps", 2}};
  const auto with = [&](const Json& more) {
    Json entry = steps;
    entry.update(more);
    return run(entry);
  };
  if (!hwloc_built()) {
    EXPECT_THROW(with({{"pin", "core"}}), InputError);
    GTEST_SKIP() << "this build has no hwloc";
  }
  const Record crowded = with({{"ranks", 32}, {"pin", "core"}, {"system", "data_parallel"}, {"microbatches", 32}});
  if (std::thread::hardware_concurrency() < 32) {
    EXPECT_EQ(crowded.outcome, RecordOutcome::unsupported);
    EXPECT_TRUE(crowded.reason.starts_with("pin: 32 ranks on a machine")) << crowded.reason;
  }
  const Record one = with({{"system", "single_device"}, {"pin", "core"}});
  ASSERT_EQ(one.outcome, RecordOutcome::ok) << one.reason;
  EXPECT_EQ(one.environment.pinning.value().library, hwloc_library());
  EXPECT_EQ(one.environment.pinning.value().cpus.size(), 1u);
  EXPECT_EQ(one.options.at("pin"), "core");
  const Record free = with({{"system", "single_device"}});
  EXPECT_FALSE(free.environment.pinning.has_value());
  EXPECT_FALSE(free.options.contains("pin"));
  ASSERT_EQ(free.curve.size(), one.curve.size());
  for (std::size_t k = 0; k < free.curve.size(); ++k) EXPECT_EQ(free.curve[k].loss, one.curve[k].loss);
}

TEST_F(RunCaseTest, ShardedTrainingHoldsLessAndLearnsTheSame) {
  const Json more = {{"clock", "wall"}, {"ranks", 2}, {"microbatches", 4}, {"costs", "analytic"}};
  const auto with = [&](const Json& extra) {
    Json entry = more;
    entry.update(extra);
    return run(entry);
  };
  const Record whole = with({{"system", "data_parallel"}}), sharded = with({{"system", "fsdp"}});
  ASSERT_EQ(whole.outcome, RecordOutcome::ok) << whole.reason;
  ASSERT_EQ(sharded.outcome, RecordOutcome::ok) << sharded.reason;
  EXPECT_NEAR(*sharded.curve.back().loss, *whole.curve.back().loss, 1e-4);
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(sharded.peak_bytes[r].weights, sharded.predicted_peak_bytes[r].weights);
    EXPECT_EQ(sharded.peak_bytes[r].gradients, sharded.predicted_peak_bytes[r].gradients);
    EXPECT_LT(sharded.peak_bytes[r].optimizer, whole.peak_bytes[r].optimizer * 51 / 100);
  }
  // Two micro-batches a rank: four gathers and two scatters of half the weights, against an
  // all-reduce of twice the half.
  EXPECT_EQ(sent(whole, SentKind::gathers), 0);
  EXPECT_EQ(sent(sharded, SentKind::gathers), 2 * sent(whole, SentKind::reductions));
  EXPECT_EQ(sent(sharded, SentKind::reductions), sent(whole, SentKind::reductions));
}

TEST_F(RunCaseTest, SeveralPipelinesDivideTheMicroBatches) {
  for (const char* clock : {"wall", "virtual"})
    for (const char* sharding : {"system", "optimizer", "use"})
      for (const char* layout : {"groups", "pipelines"}) {
        SCOPED_TRACE(testing::Message() << clock << ' ' << sharding << ' ' << layout);
        const Record r = run({{"system", "one_f_one_b"},
                              {"clock", clock},
                              {"costs", "analytic"},
                              {"epochs", 1},
                              {"microbatches", 8},
                              {"data_parallel", 2},
                              {"layout", layout},
                              {"sharding", sharding}});
        ASSERT_EQ(r.outcome, RecordOutcome::ok) << r.reason;
        EXPECT_EQ(r.ranks, 4);
        EXPECT_EQ(r.options.at("data_parallel"), "2");
        EXPECT_EQ(r.options.contains("sharding"), std::string("system") != sharding);
        EXPECT_EQ(r.observed.in_flight, r.theory.value().in_flight);
        EXPECT_GT(sent(r, SentKind::reductions), 0);
        EXPECT_EQ(sent(r, SentKind::gathers) > 0, std::string("system") != sharding);
      }
}

TEST_F(RunCaseTest, PipelinesThatCannotBeCopiedAreRejected) {
  const Record odd = run({{"system", "gpipe"}, {"microbatches", 2}, {"ranks", 4}, {"data_parallel", 4}});
  EXPECT_EQ(odd.outcome, RecordOutcome::unsupported);
  EXPECT_NE(odd.reason.find("cannot be divided among 4 pipelines"), std::string::npos) << odd.reason;
  for (const char* system : {"data_parallel", "pipedream"})
    EXPECT_EQ(run({{"system", system}, {"data_parallel", 2}}).outcome, RecordOutcome::unsupported) << system;
  // FSDP's ranks meet at every micro-batch, so that all need as many.
  EXPECT_EQ(run({{"system", "fsdp"}, {"ranks", 3}, {"microbatches", 4}}).outcome, RecordOutcome::unsupported);
}

// A profile of fmnist_mlp as of this machine, in which a weight gradient of several micro-batches at once takes
// `batched` times as long as each by itself.
std::string profile_with_batched(const std::string& folder, double batched) {
  const Workload workload = find_workload("fmnist_mlp");
  CostGraph costs = analytic_costs(workload.model, 8, load_cluster("flat:1", "").devices.front());
  costs.source = "profile";
  costs.machine = MachineCosts{.machine = "a machine", .build = "a build", .made = "2026-01-31T12:00:00Z"};
  for (LayerCost& layer : costs.layers) {
    LayerMeasurement& measured = layer.measured.emplace();
    measured.split_weight_gradient = layer.weight_gradient;
    measured.batched_weight_gradient = layer.weight_gradient * batched;
  }
  std::string file = folder + "/profile.json";
  std::ofstream(file) << to_json(costs).dump();
  return file;
}

TEST_F(RunCaseTest, WeightGradientsAreBatchedWhereTheProfileSaysThatItIsFaster) {
  const auto chosen = [&](double batched) {
    return run({{"system", "one_f_one_b"},
                {"clock", "wall"},
                {"ranks", 2},
                {"microbatches", 4},
                {"epochs", 1},
                {"weight_gradient", "auto"},
                {"costs", profile_with_batched(folder_, batched)}});
  };
  const Record faster = chosen(0.5), slower = chosen(2);
  ASSERT_EQ(faster.outcome, RecordOutcome::ok) << faster.reason;
  EXPECT_EQ(faster.observed.weight_gradient, "batched");
  EXPECT_EQ(slower.observed.weight_gradient, "per_microbatch");
  const Record given = run({{"system", "one_f_one_b"},
                            {"clock", "wall"},
                            {"ranks", 2},
                            {"microbatches", 4},
                            {"epochs", 1},
                            {"weight_gradient", "batched"},
                            {"costs", "analytic"}});
  EXPECT_EQ(given.observed.weight_gradient, std::nullopt);
  // It was not only said: the bytes that wait for the product are there, and the losses are those of batched products.
  EXPECT_EQ(faster.peak_bytes.at(0).total, given.peak_bytes.at(0).total);
  EXPECT_LT(slower.peak_bytes.at(0).total, faster.peak_bytes.at(0).total);
  EXPECT_EQ(faster.curve.back().loss, given.curve.back().loss);
}

}  // namespace
}  // namespace sluice
