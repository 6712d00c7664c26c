// Micro-batches of different sizes on the virtual clock: 2 stages, micro-batches of 3 and 1 samples, F 1, I 1 and W 1
// seconds of a sample, in 1F1B's order. Without messages:
//
//   rank 0  F0 0-3  F1 3-4                               B0 12-18  B1 18-20
//   rank 1          F0 3-6  B0 6-12  F1 12-13  B1 13-15
#include <gtest/gtest.h>

#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/communication.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

const std::vector<DeviceId> kDevices = {DeviceId(0), DeviceId(1)};

Program program_of_two() {
  Program program = checked(lower(parse_schedule("rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1B1\n"), chain(2),
                                  one_stage_per_rank(2), WeightRule{}));
  program.sizes = MicrobatchSizes({3, 1});
  return program;
}

Costs costs_of_samples(std::int64_t samples) {
  const auto seconds = static_cast<double>(samples);
  Costs costs = uniform_costs(2, seconds, seconds, seconds);
  costs.edges = {{.from = StageId(0), .to = StageId(1), .bytes = Bytes(10) * samples, .copied = Bytes(4) * samples}};
  return costs;
}

Costs costs_of_sizes() {
  Costs costs = costs_of_samples(3);
  costs.of_size = {costs_of_samples(1), costs_of_samples(3)};
  return costs;
}

TEST(MicrobatchSizesOnTheClock, OpsTakeWhatTheirSamplesTake) {
  const Simulation s =
      simulate(program_of_two(), costs_of_sizes(), latency_cluster(2, Seconds(0)), kDevices, {.iterations = 2});
  EXPECT_DOUBLE_EQ(s.bubble.makespan, 20);
  EXPECT_DOUBLE_EQ(s.bubble.idle[0], 20 - 12);
  EXPECT_DOUBLE_EQ(s.bubble.idle[1], 20 - 12);
  EXPECT_DOUBLE_EQ(s.update_end[0], 20);
}

// 10 bytes of a sample at 10 bytes a second: a message takes as many seconds as it has samples. F0 arrives at 6, F1 at
// 7, B0's gradient leaves at 15 and arrives at 18, B1's at 19: B0 18-24, B1 24-26.
TEST(MicrobatchSizesOnTheClock, MessagesTakeWhatTheirSamplesTake) {
  const Cluster cluster = cluster_of(2, {link(0, 1, 10, 0)});
  EXPECT_DOUBLE_EQ(simulate(program_of_two(), costs_of_sizes(), cluster, kDevices).bubble.makespan, 26);
  const std::vector<SentBytes> sent = sent_bytes(program_of_two(), costs_of_sizes());
  EXPECT_DOUBLE_EQ(sent[0].messages, 40);
  EXPECT_DOUBLE_EQ(sent[1].messages, 40);
}

// 10 bytes of a sample between F and B: rank 0 holds both micro-batches, rank 1 the larger one alone.
TEST(MicrobatchSizesOnTheClock, MemoryIsThatOfTheSizesAlive) {
  const auto stage_of = [](std::int64_t samples) {
    return StageMemory{.stash = Bytes(10) * samples, .weight_stash = Bytes(10) * samples};
  };
  StageMemory stage = stage_of(3);
  stage.of_size = {stage_of(1), stage_of(3)};
  const std::vector<RankMemory> held = memory(program_of_two(), {stage, stage});
  EXPECT_EQ(held[0].peak.activations, Bytes(40));
  EXPECT_EQ(held[1].peak.activations, Bytes(30));
}

}  // namespace
}  // namespace sluice
