#include "harness/sim/one_machine.h"

#include <gtest/gtest.h>

#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

constexpr Cluster::OneMachine kTwoCores{.between_processes = false, .cores = 2};

Costs costs_of(int stages, double forward, double backward, double beside) {
  Costs costs = uniform_costs(stages, forward, backward, 0);
  costs.machine = MachineCosts{.neighbours = 1};
  for (StageCost& stage : costs.stages) stage.beside = {beside, beside, beside, beside, 0};
  return costs;
}

Program program_of(const std::string& schedule, int stages) {
  return checked(lower(parse_schedule(schedule), chain(stages), one_stage_per_rank(stages), {}));
}

const std::string kTwoMicros = "rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1B1\n";

TEST(OneMachineTest, IsTheOtherEngineWhereNothingIsSharedAndMessagesTakeNoTime) {
  const Program program = program_of(kTwoMicros, 2);
  Costs costs = costs_of(2, 1, 2, 1);
  const double expected =
      simulate(program, costs, latency_cluster(2, Seconds(0)), std::vector{DeviceId(0), DeviceId(1)}).end;
  EXPECT_DOUBLE_EQ(simulate_one_machine(program, costs, kTwoCores, {}).end, expected);
}

TEST(OneMachineTest, SlowsAnOpOnlyWhileItsNeighbourComputes) {
  // Two ranks of one stage each, F 1 s and B 2 s, one micro-batch: never busy at the same time.
  const Program one = program_of("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n", 2);
  EXPECT_DOUBLE_EQ(simulate_one_machine(one, costs_of(2, 1, 2, 1.5), kTwoCores, {}).end, 6);
  // Two micro-batches. Rank 0 begins F1 at 1 s beside 1F0: both at 2/3 until 2.5 s. 1B0 runs alone until 4.5 s, then
  // 0B0 (2 s) beside 1F1 (1 s): 1F1 is done at 6 s, when 0B0 has done 1 s; 1B1 beside it: 0B0 is done at 7.5 s and 1B1
  // has 1 s left, done at 8.5 s; then 0B1.
  EXPECT_DOUBLE_EQ(simulate_one_machine(program_of(kTwoMicros, 2), costs_of(2, 1, 2, 1.5), kTwoCores, {}).end, 10.5);
}

TEST(OneMachineTest, RanksBeyondTheCoresShareThem) {
  const Program program = program_of("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n", 2);
  const Cluster::OneMachine one_core{.between_processes = false, .cores = 1};
  EXPECT_DOUBLE_EQ(simulate_one_machine(program, costs_of(2, 1, 2, 1), one_core, {}).end, 6);
  // 0F1 beside 1F0 on one core: half the speed each.
  const double two = simulate_one_machine(program_of(kTwoMicros, 2), costs_of(2, 1, 2, 1), one_core, {}).end;
  EXPECT_DOUBLE_EQ(two, 12);  // the sum of all ops
}

TEST(OneMachineTest, ARankThatHasWaitedLongWakesLate) {
  const Program program = program_of("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n", 2);
  Costs costs = costs_of(2, 1, 2, 1);
  costs.machine->wake = Seconds(0.25);
  costs.machine->patience = Seconds(2.5);  // rank 1 waits 1 s for its input, rank 0 3 s for its gradient
  EXPECT_DOUBLE_EQ(simulate_one_machine(program, costs, kTwoCores, {}).end, 6.25);
}

TEST(OneMachineTest, ASenderTakesLongerToWakeARankThatSleeps) {
  // Rank 0 waits from 2 to 4 s for its first gradient and has fallen asleep, so that rank 1 goes on half a second later
  // than it would: its second backward ends at 7.5 s, for which rank 0 has waited since 6 s, awake.
  Costs costs = costs_of(2, 1, 2, 1);
  costs.machine->rouse = Seconds(0.5);
  costs.machine->patience = Seconds(1.75);
  EXPECT_DOUBLE_EQ(simulate_one_machine(program_of(kTwoMicros, 2), costs, kTwoCores, {}).end, 9.5);
  // Ranks that are processes do not fall asleep.
  constexpr Cluster::OneMachine processes{.between_processes = true, .cores = 2};
  EXPECT_DOUBLE_EQ(simulate_one_machine(program_of(kTwoMicros, 2), costs, processes, {}).end, 9);
}

TEST(OneMachineTest, AnOpTakesMoreThanItsLayers) {
  Costs costs = costs_of(2, 1, 2, 1);
  costs.machine->forward_op = Seconds(0.1);
  costs.machine->backward_op = Seconds(0.2);
  const Program program = program_of("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n", 2);
  EXPECT_DOUBLE_EQ(simulate_one_machine(program, costs, kTwoCores, {}).end, 6.6);
}

TEST(OneMachineTest, AWeightGradientOfItsOwnTakesWhatWasMeasuredOfSuch) {
  Costs costs = uniform_costs(1, 1, 1, 5);
  costs.machine = MachineCosts{.weight_gradient_op = Seconds(0.25)};
  costs.stages[0].split_weight_gradient = Seconds(6);
  const Program split = program_of("rank 0: 0F0 0I0 0W0\n", 1), whole = program_of("rank 0: 0F0 0B0\n", 1);
  EXPECT_DOUBLE_EQ(simulate_one_machine(split, costs, kTwoCores, {}).end, 8.25);
  EXPECT_DOUBLE_EQ(simulate_one_machine(whole, costs, kTwoCores, {}).end, 7);
}

TEST(OneMachineTest, MessagesTakeTheTimeOfBothRanks) {
  const Program program = program_of("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n", 2);
  Costs costs = costs_of(2, 1, 2, 1);
  costs.machine->send = Seconds(0.1);
  costs.machine->receive = Seconds(0.2);
  costs.machine->patience = Seconds(100);
  EXPECT_DOUBLE_EQ(simulate_one_machine(program, costs, kTwoCores, {}).end, 6.6);
  costs.machine->copy = 0.01;
  costs.edges = {{StageId(0), StageId(1), Bytes(50), Bytes(10)}};  // of the activation 10 bytes are copied
  EXPECT_DOUBLE_EQ(simulate_one_machine(program, costs, kTwoCores, {}).end, 6.7);
}

TEST(OneMachineTest, BetweenProcessesMessagesAndCollectivesTakeWhatWasMeasuredThere) {
  constexpr Cluster::OneMachine processes{.between_processes = true, .cores = 2};
  Costs costs = costs_of(2, 1, 2, 1);
  costs.edges = {{StageId(0), StageId(1), Bytes(50), Bytes(0), Bytes(0)}};
  costs.machine->processes = {.message = Seconds(0.1), .byte = 0.002};
  const Program pipeline = program_of("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n", 2);
  EXPECT_DOUBLE_EQ(simulate_one_machine(pipeline, costs, kTwoCores, {}).end, 6);
  EXPECT_DOUBLE_EQ(simulate_one_machine(pipeline, costs, processes, {}).end, 6 + 4 * (0.1 + 50 * 0.002))
      << "at both ends";

  const Schedule replicas = parse_schedule("rank 0: 0F0 0B0\nrank 1: 0F1 0B1\n");
  const Placement placement{.stages = {{Rank(0), Rank(1)}}};
  const auto end = [&](const Cluster::OneMachine& machine, const Sharding& sharding) {
    const Program program = checked(lower(replicas, chain(1), placement, {}, sharding));
    return simulate_one_machine(program, costs, machine, {}).end;
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

TEST(OneMachineTest, PassesOfAStageTakeLongerWhoseWeightGradientsAnotherRankComputes) {
  Costs costs = uniform_costs(1, 1, 2, 5);
  costs.machine = MachineCosts{.forward_op = Seconds(0.5), .weight_gradient_op = Seconds(0.25)};
  costs.machine->apart = {.forward = 2, .input_gradient = 1.5, .weight_gradient = 4};
  costs.stages[0].split_weight_gradient = Seconds(6);
  const Schedule there = parse_schedule("rank 0: 0F0 0I0\nrank 1: 0W0\n");
  const Placement placement{.stages = {{Rank(0)}}, .weight_gradient_ranks = {Rank(1)}};
  const Program apart = checked(lower(there, chain(1), placement, {}));
  EXPECT_DOUBLE_EQ(simulate_one_machine(apart, costs, kTwoCores, {}).end, (1 + 0.5) * 2 + 2 * 1.5 + (6 + 0.25) * 4);
  const Program own = program_of("rank 0: 0F0 0I0 0W0\n", 1);
  EXPECT_DOUBLE_EQ(simulate_one_machine(own, costs, kTwoCores, {}).end, 1 + 0.5 + 2 + 6 + 0.25);
}

TEST(OneMachineTest, BatchedWeightGradientsComeWithTheStep) {
  const Program program = program_of("rank 0: 0F0 0B0 0F1 0B1\n", 1);
  Costs costs = uniform_costs(1, 1, 1, 5);
  costs.machine = MachineCosts{};
  costs.stages[0].batched_weight_gradient = Seconds(2);
  costs.stages[0].clear = Seconds(0.5);
  EXPECT_DOUBLE_EQ(simulate_one_machine(program, costs, kTwoCores, {}).end, 14.5);  // 2 (F + I + W), zeroed once
  costs.batched_weight_gradients = true;
  EXPECT_DOUBLE_EQ(simulate_one_machine(program, costs, kTwoCores, {}).end, 8.5);
}

TEST(OneMachineTest, ABatchOfFewWeightGradientsCostsMoreForEach) {
  Costs costs = uniform_costs(1, 1, 1, 0);
  costs.machine = MachineCosts{.batched_micros = 4};
  costs.batched_weight_gradients = true;
  costs.stages[0].split_weight_gradient = Seconds(5);
  costs.stages[0].batched_weight_gradient = Seconds(2);  // 8 for four at once
  const auto end = [&](const std::string& ops) {
    return simulate_one_machine(program_of("rank 0: " + ops + "\n", 1), costs, kTwoCores, {}).end;
  };
  EXPECT_DOUBLE_EQ(end("0F0 0I0 0W0"), 2 + 5);
  EXPECT_DOUBLE_EQ(end("0F0 0I0 0W0 0F1 0I1 0W1"), 4 + 10);
  EXPECT_DOUBLE_EQ(end("0F0 0I0 0F1 0I1 0W0 0W1"), 4 + 6);  // 4 * 1 + 2
  EXPECT_DOUBLE_EQ(end("0F0 0B0 0F1 0B1 0F2 0B2 0F3 0B3"), 8 + 8);
}

TEST(OneMachineTest, SpreadIsSeededAndLeavesTheMeanAlone) {
  std::string ops = "rank 0:";
  for (int k = 0; k < 2000; ++k) ops += " 0F" + std::to_string(k) + " 0B" + std::to_string(k);
  const Program program = program_of(ops + "\n", 1);
  Costs costs = costs_of(1, 1, 1, 1);
  costs.stages[0].beside.spread = 0.1;
  const auto end = [&](std::optional<std::uint64_t> seed) {
    return simulate_one_machine(program, costs, kTwoCores, {.trace = false, .spread_seed = seed}).end;
  };
  EXPECT_DOUBLE_EQ(end({}), 4000);
  EXPECT_EQ(end(1), end(1));
  EXPECT_NE(end(1), end(2));
  EXPECT_NEAR(end(1), 4000, 4000 * 0.01);
}

}  // namespace
}  // namespace sluice
