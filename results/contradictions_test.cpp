// Every check on two fields of a record, by a record that it alone rejects; and no committed record is rejected.
#include "results/contradictions.h"

#include <gtest/gtest.h>
#include <sluice_build.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "harness/base/expect_error.h"
#include "results/store.h"

namespace sluice {
namespace {

// Two ranks, two micro-batches of four samples, two updates.
Record sound() {
  Record r;
  r.digest = "0123456789abcdef";
  r.system = "gpipe";
  r.workload = "mlp";
  r.workload_facts = {.metric = "accuracy", .epochs = 0, .steps = 2, .target = 0.9, .single_device_value = 1};
  r.transport = "threads";
  r.ranks = 2;
  r.batch = r.samples_per_step = 8;
  r.microbatches = 2;
  r.step_seconds = {0.5, 0.25};
  r.warmup_steps = 1;
  r.curve = {{1, 0.5, 2.0, 0.0}, {2, 0.75, 1.0, 1.0}};
  r.peak_bytes = {{.total = 5, .weights = 2, .buffers = 3}, {.total = 1, .activations = 1}};
  r.predicted_peak_bytes = {{.total = 2, .weights = 2}, {.total = 1, .activations = 1}};
  r.theory = {.in_flight = {2, 1}};
  r.observed.in_flight = {2, 1};
  r.observed.bubble_ratio = 0.5;
  r.observed.sent_bytes = {.messages = {1, 2}, .gathers = {0, 0}, .reductions = {0, 0}};
  r.plan = {.objective_name = "slowest stage", .micro_batch = 4, .stages = {{.devices = {0}}, {.devices = {1}}}};
  r.timeline = {{0, "0F0", 0, 1}, {1, "1F0", 1, 1}};
  return r;
}

std::string rejection(const std::function<void(Record&)>& edit) {
  Record r = sound();
  edit(r);
  return error_of([&] { reject_contradictions(r, "r.jsonl:3"); });
}

TEST(Contradictions, ASoundRecordPasses) {
  EXPECT_EQ(rejection([](Record&) {}), "no error");
  EXPECT_EQ(rejection([](Record& r) { r.outcome = RecordOutcome::diverged, r.reason = "nan", r.diverged_at = 3; }),
            "no error");
  EXPECT_EQ(rejection([](Record& r) { r.outcome = RecordOutcome::failed, r.reason = "x", r.failed_rank = 7; }),
            "no error");
  EXPECT_EQ(rejection([](Record& r) { r.peak_bytes.pop_back(); }), "no error");  // the fullest rank
  EXPECT_EQ(rejection([](Record& r) { r.plan.reset(); }), "no error");
  EXPECT_EQ(rejection([](Record& r) { r.ranks = 3, r.plan->objective_name = "a search that leaves a rank idle"; }),
            "no error");
  // A published profile: a stage with two replicas takes two batches a step.
  EXPECT_EQ(rejection([](Record& r) {
              r.samples_per_step = 16, r.microbatches = 4;
              r.plan->stages = {{.devices = {0, 1}}};
            }),
            "no error");
}

TEST(Contradictions, AreNamedWithBothFields) {
  const std::string advice = "; remove the line, or run the case again";
  const auto expect = [&](const std::string& text, const std::function<void(Record&)>& edit) {
    EXPECT_EQ(rejection(edit), "r.jsonl:3: " + text + advice);
  };
  expect("/outcome and /reason contradict each other: a run that is ok has a reason for not being so",
         [](Record& r) { r.reason = "disk full"; });
  expect("/outcome and /reason contradict each other: a run that is failed has no reason",
         [](Record& r) { r.outcome = RecordOutcome::failed; });
  expect("/outcome and /diverged_at contradict each other: a run that is ok diverged at update 2",
         [](Record& r) { r.diverged_at = 2; });
  expect("/outcome and /diverged_at contradict each other: updates are counted from 1",
         [](Record& r) { r.outcome = RecordOutcome::diverged, r.reason = "nan", r.diverged_at = 0; });
  expect("/outcome and /failed_rank contradict each other: rank 1 failed in a run that is ok",
         [](Record& r) { r.failed_rank = 1; });
  expect("/outcome and /step_seconds contradict each other: step 1 of a run that is ok took -0.25 s",
         [](Record& r) { r.step_seconds[1] = -0.25; });
  expect("/outcome and /step_seconds contradict each other: step 0 of a run that is ok took 0 s",
         [](Record& r) { r.step_seconds[0] = 0; });
  expect("/outcome and /step_seconds contradict each other: step 0 of a run that is ok took inf s",
         [](Record& r) { r.step_seconds[0] = std::numeric_limits<double>::infinity(); });
  expect("/warmup_steps and /step_seconds contradict each other: 3 of 2 steps are warm-up",
         [](Record& r) { r.warmup_steps = 3; });
  expect("/samples_per_step and /plan/micro_batch contradict each other: 1000000000 samples in 2 micro-batches of 4",
         [](Record& r) { r.samples_per_step = 1'000'000'000; });
  expect("/samples_per_step and /plan/micro_batch contradict each other: 8 samples in 3 micro-batches of 4",
         [](Record& r) { r.microbatches = 3; });
  expect("/samples_per_step and /batch contradict each other: 8 samples in a step of batches of 7",
         [](Record& r) { r.batch = 7; });
  expect("/samples_per_step and /batch contradict each other: 8 samples in a step of batches of 16",
         [](Record& r) { r.batch = 16; });
  expect("/samples_per_step and /batch contradict each other: 16 samples in a step of batches of 8",
         [](Record& r) { r.samples_per_step = 16, r.microbatches = 4; });
  expect("/ranks and /plan/stages contradict each other: the plan is for 2 devices, the run had 99 ranks",
         [](Record& r) { r.ranks = 99; });
  expect("/ranks and /plan/stages contradict each other: the plan is for 3 devices, the run had 2 ranks",
         [](Record& r) {
           r.plan->stages[1].devices = {1, 2}, r.plan->objective_name = "another";
         });
  expect("/ranks and lists of ranks contradict each other: observed/in_flight has 3 values for 2 ranks", [](Record& r) {
    r.theory.reset(), r.observed.in_flight = {1, 1, 1};
  });
  expect("/ranks and lists of ranks contradict each other: theory/in_flight has 2 values, observed/staleness has 1",
         [](Record& r) { r.observed.staleness = {0}; });
  expect("/peak_bytes and its kinds contradict each other: peak_bytes/0 is 1 bytes in total, its kinds add up to 5",
         [](Record& r) { r.peak_bytes[0].total = 1; });
  expect(
      "/predicted_peak_bytes and its kinds contradict each other: predicted_peak_bytes/1 is 1 bytes in total, its "
      "kinds add up to 9",
      [](Record& r) { r.predicted_peak_bytes[1].versions = 8; });
  expect("/workload_facts/metric and its values contradict each other: an accuracy of 5 at point 1",
         [](Record& r) { r.curve[1].metric = 5; });
  expect("/workload_facts/metric and its values contradict each other: a target accuracy of 90",
         [](Record& r) { r.workload_facts->target = 90; });
  expect("/workload_facts/metric and its values contradict each other: an accuracy of -1 on a single device",
         [](Record& r) { r.workload_facts->single_device_value = -1; });
  expect(
      "/curve/step and /curve/seconds contradict each other: point 1 (step 1, 0.75 s) is not after the one before "
      "it (step 1, 0.5 s)",
      [](Record& r) { r.curve[1].step = 1; });
  expect(
      "/curve/step and /curve/seconds contradict each other: point 1 (step 2, 0.25 s) is not after the one before "
      "it (step 1, 0.5 s)",
      [](Record& r) { r.curve[1].seconds = 0.25; });
  expect("/curve/step and /curve/seconds contradict each other: point 0 is at -1 seconds",
         [](Record& r) { r.curve[0].seconds = -1; });
  expect("/ranks and /timeline contradict each other: op 1 is of rank 2, the run had 2 ranks",
         [](Record& r) { r.timeline[1].to = 2; });
  expect("/timeline/start and /timeline/end contradict each other: op 0 lasts from 2 to 1",
         [](Record& r) { r.timeline[0].start = 2; });
  expect(
      "/observed/bubble_ratio and /observed/span_bubble contradict each other: ranks that are idle for 1.5 of their "
      "time",
      [](Record& r) { r.observed.bubble_ratio = 1.5; });
  expect("/workload_facts/epochs and /workload_facts/steps contradict each other: 3 epochs and 2 steps",
         [](Record& r) { r.workload_facts->epochs = 3; });
  expect("/clock and /transport contradict each other: a simulated run over 'threads'",
         [](Record& r) { r.clock = Clock::virtual_clock; });
}

// On the virtual clock ops may cost nothing.
TEST(Contradictions, OnlyOnTheWallClockDoesAStepHaveToTakeTime) {
  EXPECT_EQ(rejection([](Record& r) {
              r.clock = Clock::virtual_clock, r.transport = "none";
              r.step_seconds = {0, 0};
            }),
            "no error");
}

TEST(Contradictions, NoCommittedRecordHasAny) {
  std::size_t records = 0;
  for (const auto& file : std::filesystem::directory_iterator(SLUICE_SOURCE_DIR "/results/reference"))
    if (file.path().extension() == ".jsonl") records += read_records(file.path()).records.size();
  EXPECT_GT(records, 3000u);
}

TEST(Contradictions, OfAFileAreNamedWithTheirLine) {
  const std::string path = testing::TempDir() + "contradictions_test." + std::to_string(::getpid()) + ".jsonl";
  std::filesystem::remove(path);
  {
    Store store(path);
    store.append(sound());
    Record edited = sound();
    edited.samples_per_step = 1'000'000'000;
    store.append(edited);
  }
  EXPECT_TRUE(error_of([&] {
                read_records(path);
              }).starts_with(path + ":2: /samples_per_step and /plan/micro_batch contradict each other"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace sluice
