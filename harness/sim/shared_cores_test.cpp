#include <gtest/gtest.h>

#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

constexpr Cluster::OneMachine kTwoCores{.between_processes = false, .cores = 2};

Costs costs_of(int stages, double forward, double backward, double ratio) {
  Costs costs = uniform_costs(stages, forward, backward, 0);
  costs.machine = MachineCosts{.neighbours = 1};
  for (StageCost& stage : costs.stages) stage.contention = {ratio, ratio, ratio, ratio};
  return costs;
}

Program program_of(const std::string& schedule, int stages) {
  return checked(lower(parse_schedule(schedule), chain(stages), one_stage_per_rank(stages), {}));
}

double end_on(const Program& program, const Costs& costs, const Cluster::OneMachine& machine) {
  const auto ranks = static_cast<int>(program.rank_count());
  Cluster cluster = latency_cluster(ranks, Seconds(7));  // its links carry nothing
  cluster.one_machine = machine;
  return simulate(program, costs, cluster, identity_devices(ranks), {.trace = false}).end;
}

const std::string kTwoMicros = "rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1B1\n";

TEST(SharedCoresTest, TakeTheTimeOfAnyClusterWithoutContentionAndMessages) {
  const Program program = program_of(kTwoMicros, 2);
  Costs costs = costs_of(2, 1, 2, 1);
  const double expected =
      simulate(program, costs, latency_cluster(2, Seconds(0)), std::vector{DeviceId(0), DeviceId(1)}).end;
  EXPECT_DOUBLE_EQ(end_on(program, costs, kTwoCores), expected);
}

TEST(SharedCoresTest, SlowsAnOpOnlyWhileItsNeighbourComputes) {
  // Two ranks of one stage each, F 1 s and B 2 s, one micro-batch: never busy at the same time.
  const Program one = program_of("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n", 2);
  EXPECT_DOUBLE_EQ(end_on(one, costs_of(2, 1, 2, 1.5), kTwoCores), 6);
  // Two micro-batches. Rank 0 begins F1 at 1 s, when 1F0 begins: both run at 2/3 until 2.5 s. 1B0 runs alone until
  // 4.5 s. Then 0B0 (2 s) and 1F1 (1 s) begin: 1F1 ends at 6 s, with 1 s of 0B0 left, which ends at 7.5 s. 1B1 has 1 s
  // left then and ends at 8.5 s; then 0B1.
  EXPECT_DOUBLE_EQ(end_on(program_of(kTwoMicros, 2), costs_of(2, 1, 2, 1.5), kTwoCores), 10.5);
}

TEST(SharedCoresTest, RanksBeyondTheCoresShareThem) {
  const Program program = program_of("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n", 2);
  const Cluster::OneMachine one_core{.between_processes = false, .cores = 1};
  EXPECT_DOUBLE_EQ(end_on(program, costs_of(2, 1, 2, 1), one_core), 6);
  // 0F1 and 1F0 share the core: half the speed each.
  const double two = end_on(program_of(kTwoMicros, 2), costs_of(2, 1, 2, 1), one_core);
  EXPECT_DOUBLE_EQ(two, 12);  // the sum of all ops
}

TEST(SharedCoresTest, ARankThatHasWaitedLongWakesLate) {
  const Program program = program_of("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n", 2);
  Costs costs = costs_of(2, 1, 2, 1);
  costs.machine->wake_up = Seconds(0.25);
  costs.machine->spin_time = Seconds(2.5);  // rank 1 waits 1 s for its input, rank 0 3 s for its gradient
  EXPECT_DOUBLE_EQ(end_on(program, costs, kTwoCores), 6.25);
}

TEST(SharedCoresTest, AMemberThatHasWaitedLongForACollectiveWakesLate) {
  // Rank 1 waits from 3 s until rank 0 comes at 6 s; the all-reduce takes 1 s.
  const Schedule replicas = parse_schedule("rank 0: 0F0 0B0 0F2 0B2\nrank 1: 0F1 0B1\n");
  const Program program = checked(lower(replicas, chain(1), {.stages = {{Rank(0), Rank(1)}}}, {}));
  Costs costs = costs_of(1, 1, 2, 1);
  costs.stages[0].parameters = Bytes(100);
  costs.machine->reduce = 0.01;
  costs.machine->wake_up = Seconds(0.25);
  costs.machine->spin_time = Seconds(2.5);
  EXPECT_DOUBLE_EQ(end_on(program, costs, kTwoCores), 7.25);
  costs.machine->spin_time = Seconds(3.5);
  EXPECT_DOUBLE_EQ(end_on(program, costs, kTwoCores), 7);
}

TEST(SharedCoresTest, ASenderTakesLongerToWakeARankThatSleeps) {
  // Rank 0 waits from 2 to 4 s for its first gradient and has fallen asleep, so that rank 1 goes on half a second later
  // than it would: its second backward ends at 7.5 s, for which rank 0 has waited since 6 s, awake.
  Costs costs = costs_of(2, 1, 2, 1);
  costs.machine->notify = Seconds(0.5);
  costs.machine->spin_time = Seconds(1.75);
  EXPECT_DOUBLE_EQ(end_on(program_of(kTwoMicros, 2), costs, kTwoCores), 9.5);
  // Ranks that are processes do not fall asleep.
  constexpr Cluster::OneMachine processes{.between_processes = true, .cores = 2};
  EXPECT_DOUBLE_EQ(end_on(program_of(kTwoMicros, 2), costs, processes), 9);
}

TEST(SharedCoresTest, AnOpTakesMoreThanItsLayers) {
  Costs costs = costs_of(2, 1, 2, 1);
  costs.machine->forward_op = Seconds(0.1);
  costs.machine->backward_op = Seconds(0.2);
  const Program program = program_of("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n", 2);
  EXPECT_DOUBLE_EQ(end_on(program, costs, kTwoCores), 6.6);
}

TEST(SharedCoresTest, AWeightGradientOfItsOwnTakesWhatWasMeasuredOfSuch) {
  Costs costs = uniform_costs(1, 1, 1, 5);
  costs.machine = MachineCosts{.weight_gradient_op = Seconds(0.25)};
  costs.stages[0].split_weight_gradient = Seconds(6);
  const Program split = program_of("rank 0: 0F0 0I0 0W0\n", 1), whole = program_of("rank 0: 0F0 0B0\n", 1);
  EXPECT_DOUBLE_EQ(end_on(split, costs, kTwoCores), 8.25);
  EXPECT_DOUBLE_EQ(end_on(whole, costs, kTwoCores), 7);
}

TEST(SharedCoresTest, MessagesTakeTheTimeOfBothRanks) {
  const Program program = program_of("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n", 2);
  Costs costs = costs_of(2, 1, 2, 1);
  costs.machine->send = Seconds(0.1);
  costs.machine->receive = Seconds(0.2);
  costs.machine->spin_time = Seconds(100);
  EXPECT_DOUBLE_EQ(end_on(program, costs, kTwoCores), 6.6);
  costs.machine->copy = 0.01;
  costs.edges = {{StageId(0), StageId(1), Bytes(50), Bytes(10)}};  // of the activation 10 bytes are copied
  EXPECT_DOUBLE_EQ(end_on(program, costs, kTwoCores), 6.7);
}

TEST(SharedCoresTest, BetweenProcessesMessagesAndCollectivesTakeWhatWasMeasuredThere) {
  constexpr Cluster::OneMachine processes{.between_processes = true, .cores = 2};
  Costs costs = costs_of(2, 1, 2, 1);
  costs.edges = {{StageId(0), StageId(1), Bytes(50), Bytes(0), Bytes(0)}};
  costs.machine->processes = {.message = Seconds(0.1), .byte = 0.002};
  const Program pipeline = program_of("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n", 2);
  EXPECT_DOUBLE_EQ(end_on(pipeline, costs, kTwoCores), 6);
  EXPECT_DOUBLE_EQ(end_on(pipeline, costs, processes), 6 + 4 * (0.1 + 50 * 0.002)) << "at both ends";

  const Schedule replicas = parse_schedule("rank 0: 0F0 0B0\nrank 1: 0F1 0B1\n");
  const Placement placement{.stages = {{Rank(0), Rank(1)}}};
  const auto end = [&](const Cluster::OneMachine& machine, const Sharding& sharding) {
    const Program program = checked(lower(replicas, chain(1), placement, {}, sharding));
    return end_on(program, costs, machine);
  };
  costs = costs_of(1, 1, 2, 1);
  costs.stages[0].parameters = Bytes(100);
  costs.machine->reduce = 0.01;
  costs.machine->gather = 0.02;
  costs.machine->scatter = 0.04;
  const Sharding sharded{.gather = Sharding::Gather::once, .reduce = Sharding::Reduce::accumulated};
  EXPECT_DOUBLE_EQ(end(processes, {}), end(kTwoCores, {})) << "not measured: as between threads";
  EXPECT_DOUBLE_EQ(end(processes, sharded), end(kTwoCores, sharded));
  costs.machine->processes = {.reduce = 0.05, .gather = 0.06, .scatter = 0.08};
  EXPECT_DOUBLE_EQ(end(kTwoCores, {}), 3 + 100 * 0.01);
  EXPECT_DOUBLE_EQ(end(processes, {}), 3 + 100 * 0.05);
  EXPECT_DOUBLE_EQ(end(kTwoCores, sharded), 3 + 50 * (0.02 + 0.04)) << "of the other's half";
  EXPECT_DOUBLE_EQ(end(processes, sharded), 3 + 50 * (0.06 + 0.08));
}

TEST(SharedCoresTest, PassesOfAStageTakeLongerWhoseWeightGradientsAnotherRankComputes) {
  Costs costs = uniform_costs(1, 1, 2, 5);
  costs.machine = MachineCosts{.forward_op = Seconds(0.5), .weight_gradient_op = Seconds(0.25)};
  costs.machine->apart = {.forward = 2, .input_gradient = 1.5, .weight_gradient = 4};
  costs.stages[0].split_weight_gradient = Seconds(6);
  const Schedule there = parse_schedule("rank 0: 0F0 0I0\nrank 1: 0W0\n");
  const Placement placement{.stages = {{Rank(0)}}, .weight_gradient_ranks = {Rank(1)}};
  const Program apart = checked(lower(there, chain(1), placement, {}));
  EXPECT_DOUBLE_EQ(end_on(apart, costs, kTwoCores), (1 + 0.5) * 2 + 2 * 1.5 + (6 + 0.25) * 4);
  const Program own = program_of("rank 0: 0F0 0I0 0W0\n", 1);
  EXPECT_DOUBLE_EQ(end_on(own, costs, kTwoCores), 1 + 0.5 + 2 + 6 + 0.25);
}

TEST(SharedCoresTest, BatchedWeightGradientsComeWithTheStep) {
  const Program program = program_of("rank 0: 0F0 0B0 0F1 0B1\n", 1);
  Costs costs = uniform_costs(1, 1, 1, 5);
  costs.machine = MachineCosts{};
  costs.stages[0].batched_weight_gradient = Seconds(2);
  costs.stages[0].clear = Seconds(0.5);
  EXPECT_DOUBLE_EQ(end_on(program, costs, kTwoCores), 14.5);  // 2 (F + I + W), zeroed once
  costs.batched_weight_gradients = true;
  EXPECT_DOUBLE_EQ(end_on(program, costs, kTwoCores), 8.5);
}

TEST(SharedCoresTest, ABatchOfFewWeightGradientsCostsMoreForEach) {
  Costs costs = uniform_costs(1, 1, 1, 0);
  costs.machine = MachineCosts{.batched_microbatches = 4};
  costs.batched_weight_gradients = true;
  costs.stages[0].split_weight_gradient = Seconds(5);
  costs.stages[0].batched_weight_gradient = Seconds(2);  // 8 for four at once
  const auto end = [&](const std::string& ops) {
    return end_on(program_of("rank 0: " + ops + "\n", 1), costs, kTwoCores);
  };
  EXPECT_DOUBLE_EQ(end("0F0 0I0 0W0"), 2 + 5);
  EXPECT_DOUBLE_EQ(end("0F0 0I0 0W0 0F1 0I1 0W1"), 4 + 10);
  EXPECT_DOUBLE_EQ(end("0F0 0I0 0F1 0I1 0W0 0W1"), 4 + 6);  // 4 * 1 + 2
  EXPECT_DOUBLE_EQ(end("0F0 0B0 0F1 0B1 0F2 0B2 0F3 0B3"), 8 + 8);
}

TEST(SharedCoresTest, TheTraceSaysIntoHowManyChunksSequencesAreCut) {
  Schedule schedule = parse_schedule("rank 0: 0F0 0F1 0B1 0B0\n");
  schedule.sequence_chunks = 2;
  const Program program = checked(lower(schedule, chain(1), one_stage_per_rank(1), {}));
  Cluster cluster = latency_cluster(1, Seconds(0));
  cluster.one_machine = kTwoCores;
  EXPECT_EQ(simulate(program, costs_of(1, 1, 2, 1), cluster, identity_devices(1)).trace.sequence_chunks, 2);
}

}  // namespace
}  // namespace sluice
