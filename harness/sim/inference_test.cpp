// Inference on the virtual clock: the period of a full pipe, queues that end, and memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

struct Pipe {
  std::vector<double> compute;   // seconds of every stage
  std::vector<double> transfer;  // between them
  int queue = 4;
};

Program program_of(const Pipe& pipe, int micro_batches) {
  const auto stages = static_cast<int>(pipe.compute.size());
  const Schedule schedule = forwards_of(example_gpipe(stages, micro_batches));
  return lower(schedule, chain(stages), one_stage_per_rank(stages), {}, {}, {.queue = pipe.queue});
}

Simulation run(const Pipe& pipe, int micro_batches) {
  const auto stages = static_cast<int>(pipe.compute.size());
  Cluster cluster{.name = "chain"};
  cluster.devices.resize(pipe.compute.size());
  Costs costs = uniform_costs(stages, 0, 0, 0);
  for (int s = 0; s < stages; ++s) {
    costs.stages[std::size_t(s)].forward = Seconds(pipe.compute[std::size_t(s)]);
    if (s + 1 == stages) break;
    costs.edges.push_back({StageId(s), StageId(s + 1), Bytes(1'000'000)});
    const double seconds = std::max(pipe.transfer[std::size_t(s)], 1e-9);
    cluster.links.push_back({.from = DeviceId(s), .to = DeviceId(s + 1), .bandwidth = 1e6 / seconds});
  }
  std::vector<DeviceId> devices;
  for (int s = 0; s < stages; ++s) devices.emplace_back(s);
  return simulate(program_of(pipe, micro_batches), costs, cluster, devices);
}

TEST(InferenceOnTheVirtualClock, TimesOfMicroBatchesAreThoseOfTheEnds) {
  const Simulation s = run({.compute = {1, 2}, .transfer = {0.5}}, 3);
  ASSERT_EQ(s.micro_batches.entered.size(), 3u);
  EXPECT_NEAR(s.micro_batches.entered[1], 1, 1e-6);
  EXPECT_NEAR(s.micro_batches.left[0], 3.5, 1e-6);
  EXPECT_NEAR(s.micro_batches.left[1], 5.5, 1e-6);  // the second stage is busy until 3.5
  EXPECT_NEAR(s.micro_batches.left[2], 7.5, 1e-6);
  ASSERT_EQ(s.update_end.size(), 1u);
  EXPECT_NEAR(s.update_end[0], 7.5, 1e-6);
}

TEST(InferenceOnTheVirtualClock, AFullPipeDeliversEveryLongestComputeOrTransfer) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> seconds(0, 1);
  for (int n = 0; n < 300; ++n) {
    Pipe pipe{.queue = 2 + n % 3};
    for (int s = 0; s < 2 + n % 6; ++s) {
      pipe.compute.push_back(seconds(random));
      pipe.transfer.push_back(seconds(random));
    }
    pipe.transfer.pop_back();
    const double period = std::max(std::ranges::max(pipe.compute), std::ranges::max(pipe.transfer));
    const std::vector<double> left = run(pipe, 60).micro_batches.left;
    EXPECT_NEAR((left[59] - left[39]) / 20, period, 1e-6) << n;
  }
}

TEST(InferenceOnTheVirtualClock, AFastStageDoesNotRunAwayFromASlowOne) {
  const Pipe pipe{.compute = {0.1, 1}, .transfer = {0}, .queue = 3};
  const MicroBatchTimes t = run(pipe, 50).micro_batches;
  // Three wait, one is computed by the slow stage, and the fast one has begun one more.
  for (std::size_t m = 10; m < 50; ++m) EXPECT_LT(t.left[m] - t.entered[m], 5.01);
  const Pipe endless{.compute = {0.1, 1}, .transfer = {0}, .queue = 0};
  const MicroBatchTimes more = run(endless, 50).micro_batches;
  EXPECT_GT(more.left[49] - more.entered[49], 40);
}

TEST(InferenceMemory, IsWeightsAndWhatLivesAndWaits) {
  const Program program = program_of({.compute = {1, 1}, .transfer = {0}}, 8);
  std::vector<StageMemory> stages(2);
  stages[0] = {.weights = Bytes(100), .gradients = Bytes(7), .optimizer = Bytes(7), .stash = Bytes(7)};
  stages[0].live = Bytes(10);
  stages[0].waiting = Bytes(3);
  const std::vector<RankMemory> held = memory(program, stages);
  EXPECT_EQ(held[0].peak.weights, Bytes(100));
  EXPECT_EQ(held[0].peak.buffers, Bytes(13));
  EXPECT_EQ(held[0].peak.total(), Bytes(113));
  EXPECT_EQ(held[0].peak_in_flight, 0);
}

// Linear 4 -> 8, ReLU, Linear 8 -> 2, loss; 10 samples of a micro-batch, 4 bytes an element.
TEST(InferenceMemory, AStageHoldsTheLayersThatLiveAtOnceAndHalfOfEveryQueue) {
  ModelGraph model{.name = "mlp", .inputs = {{.shape = {4}}}};
  model.layers = {{"a", Linear{4, 8}, {-1}},
                  {"relu", Activation{}, {0}},
                  {"b", Linear{8, 2}, {1}},
                  {"loss", CrossEntropyLoss{}, {2}}};
  const std::vector<Shape> shapes = model.shapes();
  const std::vector<int> first{0, 1};
  EXPECT_EQ(live_bytes(model, shapes, first, 10), Bytes(10 * 4 * (8 + 8)));  // while the ReLU runs
  const std::vector<int> second{2, 3};
  EXPECT_EQ(live_bytes(model, shapes, second, 10), Bytes(10 * 4 * (8 + 2)));
  Plan plan;
  plan.stages = {{.layers = {0, 1}, .devices = {DeviceId(0)}}, {.layers = {2, 3}, .devices = {DeviceId(1)}}};
  const std::vector<StageMemory> stages = inference_memory(model, plan, 10, 4);
  EXPECT_EQ(stages[0].weights, Bytes(4 * (4 * 8 + 8)));
  EXPECT_EQ(stages[0].gradients, Bytes(0));
  EXPECT_EQ(stages[0].waiting, Bytes(2 * 10 * 8 * 4));
  EXPECT_EQ(stages[1].waiting, Bytes(2 * 10 * 8 * 4));
}

}  // namespace
}  // namespace sluice
