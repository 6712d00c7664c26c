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
#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/memory.h"

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
  std::vector<FakeRankDevice> devices = {};  // copies, made while the session has them
};

Outcome train(const std::vector<PlanStage>& stages, const Program& program, const std::string& device,
              double rate = 0.1) {
  register_device_backend({.rejection = [] { return ""; },
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
  if (device != "cpu")
    for (const FakeRankDevice* d : made) outcome.devices.push_back(*d);
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
  ASSERT_EQ(device.devices.size(), 3u);
  for (const FakeRankDevice& d : device.devices) EXPECT_EQ(d.entered, 1);
}

// Moves of every stash that can, on a pipeline, on two stages a rank in a V, and with I and W apart.
struct OffloadedPipeline {
  Schedule schedule;
  std::vector<PlanStage> stages;
  Placement placement;
  bool lower_peak = true;  // on rank 0

  Program program(bool moves) const {
    return lower(schedule, chain(static_cast<int>(stages.size())), placement, WeightRule{}, {}, {},
                 moves ? offload_all(schedule) : Offload{});
  }
  std::vector<RankMemory> predicted(bool moves) const {
    Plan plan;
    plan.stages = stages;
    const OptimizerSpec optimizer{.momentum = 0.9};
    return memory(program(moves), stage_memory(model(), plan, kBatch / kMicros, optimizer, WeightRule{}));
  }
};

std::vector<OffloadedPipeline> offloaded_pipelines() {
  const Schedule fill = parse_schedule(
      "rank 0: 0F0 0F1 0F2 0F3 0B3 0B2 0B1 0B0\nrank 1: 1F0 1F1 1F2 1F3 1B3 1B2 1B1 1B0\n"
      "rank 2: 2F0 2F1 2F2 2F3 2B3 2B2 2B1 2B0\n");
  const Schedule vee = parse_schedule(
      "rank 0: 0F0 0F1 0F2 3F0 3I0 3W0 0F3 3F1 0I0 3I1 3W1 3F2 0W0 0I1 3I2 3W2 3F3 3I3 0I2 3W3 0I3 0W1 0W2 0W3\n"
      "rank 1: 1F0 2F0 1F1 2F1 2I0 2W0 1I0 1W0 1F2 2F2 2I1 1I1 2W1 1F3 1W1 2F3 2I2 1I2 2I3 1I3 2W2 2W3 1W2 1W3\n");
  const std::vector<PlanStage> four{{.layers = {0}, .devices = {DeviceId(0)}},
                                    {.layers = {1, 2}, .devices = {DeviceId(1)}},
                                    {.layers = {3}, .devices = {DeviceId(1)}},
                                    {.layers = {4, 5}, .devices = {DeviceId(0)}}};
  return {{example_1f1b(3, kMicros), kPipeline, one_stage_per_rank(3), false},
          {fill, kPipeline, one_stage_per_rank(3)},
          {vee, four, {{{Rank(0)}, {Rank(1)}, {Rank(1)}, {Rank(0)}}}, false}};
}

TEST(OffloadedStashes, TrainToTheSameBitsInThePredictedMemory) {
  for (const OffloadedPipeline& c : offloaded_pipelines()) {
    SCOPED_TRACE(to_text(c.schedule));
    ASSERT_TRUE(check(c.program(true)).empty());
    const Outcome plain = train(c.stages, c.program(false), "cpu"), moved = train(c.stages, c.program(true), "cpu");
    EXPECT_EQ(moved.weights, plain.weights);
    EXPECT_EQ(moved.result.losses, plain.result.losses);
    const std::vector<RankMemory> with = c.predicted(true), without = c.predicted(false);
    for (std::size_t r = 0; r < with.size(); ++r) {
      SCOPED_TRACE(testing::Message() << "rank " << r);
      EXPECT_EQ(plain.peaks[r].activations, without[r].peak.activations);
      EXPECT_EQ(moved.peaks[r].activations, with[r].peak.activations);
      EXPECT_EQ(moved.peaks[r].host, with[r].peak.host);
      EXPECT_EQ(plain.peaks[r].host, Bytes(0));
    }
    if (c.lower_peak) {
      EXPECT_LT(moved.peaks[0].activations, plain.peaks[0].activations);
    }
    EXPECT_GT(moved.peaks[0].host, Bytes(0));
  }
}

TEST(OffloadedStashes, OnDevicesTheirCopiesRunBesideTheRank) {
  for (const OffloadedPipeline& c : offloaded_pipelines()) {
    const Outcome cpu = train(c.stages, c.program(false), "cpu"), device = train(c.stages, c.program(true), "cuda");
    EXPECT_EQ(device.weights, cpu.weights);
    EXPECT_GT(device.peaks[0].host, Bytes(0));
    EXPECT_GT(device.devices.at(0).copies, 0);
    std::vector<std::size_t> copies;
    for (const auto& rank : device.result.execution.trace.host_copies) copies.push_back(rank.size());
    std::vector<std::size_t> planned;
    for (const auto& rank : offload_all(c.schedule).ranks) planned.push_back(rank.size() / 3 * 2);
    EXPECT_EQ(copies, planned);
  }
}

TEST(RanksOnDevices, EveryMessageIsWaitedForAndKeptForItsReader) {
  const std::vector<FakeRankDevice> devices = train(kPipeline, pipeline(), "cuda").devices;
  ASSERT_EQ(devices.size(), 3u);
  const int messages = kMicros * kUpdates;
  EXPECT_EQ(devices[0].waits, messages);      // gradients
  EXPECT_EQ(devices[1].waits, 2 * messages);  // activations and gradients
  EXPECT_EQ(devices[2].waits, messages);
  EXPECT_EQ(devices[1].uses, 2 * messages);
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
