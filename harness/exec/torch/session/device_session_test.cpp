// What a rank on a GPU does differently (losses read late, work asked for ahead, messages and
// reductions behind events, times by the device's clock), run through the real session on devices
// that are the CPU: it must train to the same bits. On a GPU: harness/tests/cuda_systems_test.cpp.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>

#include "harness/base/json.h"
#include "harness/exec/session.h"
#include "harness/exec/torch/session/device_backend.h"
#include "harness/exec/torch/stage/fake_rank_device.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

std::vector<FakeRankDevice*> made;  // the last session's

std::vector<std::unique_ptr<RankDevice>> make_devices(std::size_t ranks, ProcessGroup*) {
  std::vector<std::unique_ptr<RankDevice>> devices;
  made.clear();
  for (std::size_t r = 0; r < ranks; ++r) {
    auto device = std::make_unique<FakeRankDevice>();
    made.push_back(device.get());
    devices.push_back(std::move(device));
  }
  return devices;
}

constexpr std::int64_t kBatch = 24;
constexpr int kMicros = 6, kUpdates = 4;

ModelGraph model() {
  return {.name = "mlp",
          .inputs = {{.shape = {6}}},
          .layers = {{"a", Linear{6, 8}, {-1}},
                     {"b", Activation{Activation::Kind::tanh}, {0}},
                     {"c", Linear{8, 5}, {1}},
                     {"d", Activation{Activation::Kind::relu}, {2}},
                     {"e", Linear{5, 3}, {3}},
                     {"loss", CrossEntropyLoss{}, {4}}}};
}

struct Outcome {
  std::vector<std::vector<double>> weights;
  RunResult result;
  std::vector<MemoryByKind> peaks;
};

Outcome train(const std::vector<PlanStage>& stages, const Program& program, const std::string& device,
              double rate = 0.1) {
  register_device_backend({.refusal = [] { return ""; },
                           .describe = [] { return nullptr; },
                           .make_devices = make_devices,
                           .make_nccl_transports = nullptr});
  SessionSpec spec{.model = model()};
  spec.plan.stages = stages;
  spec.plan.micro_batch = spec.micro_batch = kBatch / kMicros;
  spec.optimizer.learning_rate = rate;
  spec.optimizer.momentum = 0.9;
  spec.synthetic_batch = kBatch;
  spec.device = device;
  const auto session = make_session(spec);
  RunRequest request;
  request.iterations = kUpdates;
  request.traced_iteration = 1;
  request.timeout = Seconds(60);
  Outcome outcome;
  outcome.result = session->run(program, request);
  for (int l = 0; l < static_cast<int>(spec.model.layers.size()); ++l) outcome.weights.push_back(session->weights(l));
  outcome.peaks = session->peak_memory();
  return outcome;
}

const std::vector<PlanStage> kPipeline{{.layers = {0, 1}, .devices = {DeviceId(0)}},
                                       {.layers = {2, 3}, .devices = {DeviceId(1)}},
                                       {.layers = {4, 5}, .devices = {DeviceId(2)}}};
Program pipeline() { return lower(example_1f1b(3, kMicros), chain(3), one_stage_per_rank(3), WeightRule{}); }

TEST(RanksOnDevices, TrainToTheSameBitsAsRanksOnTheCpu) {
  const Outcome cpu = train(kPipeline, pipeline(), "cpu");
  const Outcome device = train(kPipeline, pipeline(), "cuda");
  EXPECT_EQ(device.weights, cpu.weights);
  EXPECT_EQ(device.result.losses, cpu.result.losses);
  for (const FakeRankDevice* d : made) EXPECT_EQ(d->entered, 1);
}

TEST(RanksOnDevices, EveryMessageIsWaitedForAndKeptForItsReader) {
  train(kPipeline, pipeline(), "cuda");
  const int messages = kMicros * kUpdates;
  EXPECT_EQ(made[0]->waits, messages);      // gradients
  EXPECT_EQ(made[1]->waits, 2 * messages);  // activations and gradients
  EXPECT_EQ(made[2]->waits, messages);
  EXPECT_EQ(made[1]->uses, 2 * messages);
}

TEST(RanksOnDevices, ReplicasReduceOnTheirDevices) {
  std::vector<int> all{0, 1, 2, 3, 4, 5};
  const std::vector<PlanStage> replicated{{.layers = all, .devices = {DeviceId(0), DeviceId(1)}}};
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(2), .microbatches = kMicros};
  for (int i = 0; i < kMicros; ++i) {
    auto& ops = schedule.ranks[i % 2];
    ops.push_back(forward_op(0, i));
    ops.push_back(backward_op(0, i));
  }
  const Placement placement{.stages = {{Rank(0), Rank(1)}}};
  const Program program = lower(schedule, chain(1), placement, WeightRule{});
  EXPECT_EQ(train(replicated, program, "cuda").weights, train(replicated, program, "cpu").weights);
}

TEST(RanksOnDevices, TimesAreTheDevicesAndInOrder) {
  const auto start = std::chrono::steady_clock::now();
  const Outcome device = train(kPipeline, pipeline(), "cuda");
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const Execution& e = device.result.execution;
  ASSERT_EQ(e.update_end.size(), static_cast<std::size_t>(kUpdates));
  EXPECT_TRUE(std::ranges::is_sorted(e.update_end));
  EXPECT_GT(e.update_end.front(), 0);
  EXPECT_GE(e.seconds, e.update_end.back());
  EXPECT_LE(e.seconds, elapsed.count());  // seconds, not numbers of marks
  for (const auto& rank : e.trace.ranks) {
    ASSERT_FALSE(rank.empty());
    for (const TraceEvent& event : rank) {
      EXPECT_LE(event.start, event.end);
      EXPECT_GT(event.start, 0);
      EXPECT_LE(event.end, e.seconds);
    }
  }
}

TEST(RanksOnDevices, ALossThatIsReadLateStillEndsTheRunAtItsUpdate) {
  const Outcome cpu = train(kPipeline, pipeline(), "cpu", 1e30);
  const Outcome device = train(kPipeline, pipeline(), "cuda", 1e30);
  ASSERT_TRUE(cpu.result.execution.diverged);
  EXPECT_EQ(device.result.execution.diverged, cpu.result.execution.diverged);
  EXPECT_EQ(device.result.losses, cpu.result.losses);
}

TEST(RanksOnDevices, MemoryOfTheHostIsNotTheirs) {
  for (const MemoryByKind& peak : train(kPipeline, pipeline(), "cuda").peaks)
    EXPECT_EQ(peak.total(), Bytes(0));  // the devices are the CPU, and nothing was told of a GPU's memory
}

}  // namespace
}  // namespace sluice
