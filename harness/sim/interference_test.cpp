// Interference on the virtual clock: ops and transfers integrate the speed that episodes leave.
#include <gtest/gtest.h>

#include "harness/model/load_interference.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

Interference given(const std::string& text) { return load_interference(text, 8, "test"); }

Program one_stage(int microbatches) {
  return lower(example_1f1b(1, microbatches), chain(1), one_stage_per_rank(1), WeightRule{});
}

double end_under(const Program& program, const Costs& costs, const Cluster& cluster, const Interference& interference,
                 double start = 0) {
  return simulate(program, costs, cluster, identity_devices(static_cast<int>(program.rank_count())),
                  {.interference = &interference, .start = start})
      .end;
}

TEST(SimulatedInterferenceTest, AnEpisodeThatStartsInMidOpCountsFromThere) {
  // F = 10 from 0: 4 at full speed, 3 until t = 10 at half of it, 3 more; then B = 2.
  const Costs costs = uniform_costs(1, 10, 1, 1);
  const Cluster alone = latency_cluster(1, Seconds(0));
  EXPECT_DOUBLE_EQ(end_under(one_stage(1), costs, alone, given("compute:0@4-10x2")), 15);
  EXPECT_DOUBLE_EQ(end_under(one_stage(1), costs, alone, {}), 12);
}

TEST(SimulatedInterferenceTest, EpisodesCountFromTheStartOfTheTraining) {
  const Costs costs = uniform_costs(1, 10, 1, 1);
  EXPECT_DOUBLE_EQ(end_under(one_stage(1), costs, latency_cluster(1, Seconds(0)), given("compute:0@104-110x2"), 100),
                   15);
}

TEST(SimulatedInterferenceTest, ATransferIsSlowedInMidWay) {
  // Two stages, F = B = 1 each, messages of 10 B at 10 B/s: F0 until 1, the message until 2.5 instead of 2.
  Costs costs = uniform_costs(2, 1, 0.5, 0.5);
  costs.edges.push_back({StageId(0), StageId(1), Bytes(10)});
  Cluster cluster = latency_cluster(2, Seconds(0));
  cluster.all_to_all->bandwidth = 10;
  const Program program = lower(example_1f1b(2, 1), chain(2), one_stage_per_rank(2), WeightRule{});
  EXPECT_DOUBLE_EQ(end_under(program, costs, cluster, {}), 6);
  EXPECT_DOUBLE_EQ(end_under(program, costs, cluster, given("link:0-1@1-2x2")), 6.5);
}

TEST(SimulatedInterferenceTest, NoiseIsTheSameOnBothEngines) {
  Interference noise;
  noise.seed = 7;
  noise.op_noise = 0.1;
  noise.latency_jitter = 0.25;
  const Program program = lower(example_1f1b(4, 16), chain(4), one_stage_per_rank(4), WeightRule{});
  const Costs costs = uniform_costs(4, 1, 1, 1);
  const auto end = [&](bool time_ordered) {
    return simulate(program, costs, latency_cluster(4, Seconds(0.1)), identity_devices(4),
                    {.time_ordered = time_ordered, .interference = &noise})
        .end;
  };
  EXPECT_DOUBLE_EQ(end(false), end(true));
  EXPECT_NE(end(false), end_under(program, costs, latency_cluster(4, Seconds(0.1)), {}));
}

TEST(SimulatedInterferenceTest, NoInterferenceLeavesEveryBitAsItIs) {
  const Program program = lower(example_1f1b(4, 16), chain(4), one_stage_per_rank(4), WeightRule{});
  const Costs costs = uniform_costs(4, 0.1, 0.7, 0.3);
  const Cluster cluster = latency_cluster(4, Seconds(0.013));
  EXPECT_EQ(simulate(program, costs, cluster, identity_devices(4)).end, end_under(program, costs, cluster, {}));
}

TEST(SimulatedInterferenceTest, SlowsTheRanksOfAMeasuredMachine) {
  const Program program = lower(example_1f1b(2, 4), chain(2), one_stage_per_rank(2), WeightRule{});
  Costs costs = uniform_costs(2, 1, 0.5, 0.5);
  costs.machine = MachineCosts{.neighbours = 1};
  Cluster cluster = latency_cluster(2, Seconds(0));
  cluster.one_machine = Cluster::OneMachine{.between_processes = false, .cores = 2};
  const Interference slow = given("compute:0@0-x2");
  // Rank 0 works for 4 * 2 s, twice as long as it did, and then waits for rank 1's last micro-batch.
  EXPECT_GE(end_under(program, costs, cluster, slow), 16);
  EXPECT_DOUBLE_EQ(end_under(program, costs, cluster, slow),
                   end_under(program, costs, latency_cluster(2, Seconds(0)), slow));
}

}  // namespace
}  // namespace sluice
