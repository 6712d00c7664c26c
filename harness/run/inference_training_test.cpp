// Inference for real: the outputs of every system's pipeline are those of one device to the last bit, a record says how
// fast they came and how long each took, and nothing is held for training.
#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/case/sweep.h"
#include "harness/case/test_profiles.h"
#include "harness/pipeline/system.h"
#include "harness/run/run_case.h"
#include "results/metrics.h"

namespace sluice {
namespace {

Record run(const Json& more) {
  Json entry = {{"system", "single_device"}, {"workload", "tiny"}, {"task", "inference"}, {"ranks", 3},
                {"microbatches", 4},         {"batch", 32},        {"steps", 5},          {"costs", "analytic"}};
  entry.update(more);
  return run_case(expand_case({entry, in_file("s.json")}).at(0), test_profiles(), {});
}

std::string digest_of(const Record& record) { return record.observed.output_digest.value_or(record.reason); }

TEST(Inference, EverySystemsOutputsAreThoseOfOneDevice) {
  for (const char* workload : {"tiny", "mmt_small"}) {
    const std::string one = digest_of(run({{"workload", workload}}));
    ASSERT_EQ(one.size(), 16u) << one;
    int ran = 0;
    for (const System* system : all_systems()) {
      SCOPED_TRACE(std::string(workload) + " " + system->name);
      const Record record = run({{"workload", workload}, {"system", system->name}, {"ranks", 4}});
      if (record.outcome == RecordOutcome::unsupported) continue;
      EXPECT_EQ(record.outcome, RecordOutcome::ok) << record.reason;
      EXPECT_EQ(digest_of(record), one);
      ++ran;
    }
    EXPECT_GE(ran, 15);
  }
}

TEST(Inference, OtherWeightsAndOtherSamplesGiveOtherOutputs) {
  const std::string one = digest_of(run({}));
  EXPECT_EQ(digest_of(run({})), one);
  EXPECT_NE(digest_of(run({{"seed", 2}})), one);
}

TEST(Inference, ARecordSaysWhatWasMeasured) {
  for (const char* clock : {"wall", "virtual"}) {
    SCOPED_TRACE(clock);
    const Record record = run({{"system", "edgepipe"}, {"clock", clock}});
    ASSERT_EQ(record.outcome, RecordOutcome::ok) << record.reason;
    EXPECT_TRUE(is_inference(record));
    EXPECT_EQ(record.step_seconds.size(), 5u);
    EXPECT_EQ(record.observed.latency_seconds.value().size(), 20u);
    EXPECT_EQ(digest_of(record), digest_of(run({})));
    EXPECT_GT(throughput(record)->samples_per_second, 0);
    EXPECT_GT(latency(record)->median, 0);
    EXPECT_GE(latency(record)->percentile_95, latency(record)->median);
    EXPECT_EQ(duration_text(record), "5 batches");
    ASSERT_FALSE(record.peak_bytes.empty());
    for (std::size_t r = 0; r < record.peak_bytes.size(); ++r) {
      EXPECT_EQ(record.peak_bytes[r].gradients, 0);
      EXPECT_EQ(record.peak_bytes[r].optimizer, 0);
      EXPECT_EQ(record.peak_bytes[r].activations, 0);
      if (record.clock == Clock::virtual_clock) continue;  // its peaks are the predicted ones
      EXPECT_EQ(record.peak_bytes[r].weights, record.predicted_peak_bytes.at(r).weights);
      // Kernels take scratch memory besides, and a target is loaded.
      EXPECT_LE(record.peak_bytes[r].buffers, 2 * record.predicted_peak_bytes.at(r).buffers);
    }
  }
}

TEST(Inference, ASystemThatOnlyInfersDoesNotTrain) {
  EXPECT_NE(error_of([] {
              run({{"system", "edgepipe"}, {"task", "train"}});
            }).find("plans inference and cannot train"),
            std::string::npos);
  Json entry = {{"system", "edgepipe"}, {"workload", "tiny"}};
  EXPECT_EQ(expand_case({entry, in_file("s.json")}).at(0).task, Task::inference);
}

TEST(Inference, HasNoEpochsAndNoTuning) {
  EXPECT_NE(error_of([] {
              run({{"workload", "fmnist_mlp"}, {"epochs", 1}, {"steps", 0}});
            }).find("no epochs"),
            std::string::npos);
  EXPECT_NE(error_of([] { run({{"purpose", "boundary"}}); }).find("is one of training"), std::string::npos);
}

TEST(Inference, ShardedWeightsAreRejected) {
  const Record record = run({{"system", "fsdp"}});
  EXPECT_EQ(record.outcome, RecordOutcome::unsupported);
  EXPECT_NE(record.reason.find("whole weights"), std::string::npos);
}

TEST(Inference, SystemsThatDivideNothingWithoutReplicasInfer) {
  const std::string one = digest_of(run({}));
  for (const char* system : {"one_f_one_b", "breadth_first", "zeropp"}) {
    const Record record = run({{"system", system}});
    EXPECT_EQ(record.outcome, RecordOutcome::ok) << system << ": " << record.reason;
    EXPECT_EQ(digest_of(record), one) << system;
  }
}

TEST(Inference, AFailureOnPurposeEndsTheRun) {
  const Record record = run({{"system", "gpipe"}, {"inject_failure", {{"rank", 1}, {"update", 2}}}});
  EXPECT_EQ(record.outcome, RecordOutcome::failed);
  EXPECT_EQ(record.failed_rank, 1);
}

}  // namespace
}  // namespace sluice
