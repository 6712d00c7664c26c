// Sharded stages on the virtual clock: hand-computed times and bytes.
#include <gtest/gtest.h>

#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"
#include "harness/sim/timed_texts.h"

namespace sluice {
namespace {

using Gather = Sharding::Gather;
using Reduce = Sharding::Reduce;

// F = I = W = 1 s, an update `update` s, `bytes` of weights a stage.
Costs costs_of_stages(int stages, std::int64_t bytes, double update = 0) {
  Costs costs = uniform_costs(stages, 1, 1, 1);
  for (StageCost& stage : costs.stages) {
    stage.parameters = Bytes(bytes);
    stage.update = Seconds(update);
  }
  return costs;
}

using Times = std::vector<std::string>;

const Placement kBoth{{{Rank(0), Rank(1)}}};
// 200 bytes over two ranks: one step of 100 bytes, 1 s and 0.1 s of latency.
const std::vector<Link> kPair = {link(0, 1, 100, 0.1)};

Program one_stage(const Sharding& sharding, const std::string& text =
                                                "rank 0: 0F0 0B0\n"
                                                "rank 1: 0F1 0B1\n") {
  return lower(parse_schedule(text), chain(1), kBoth, WeightRule{}, sharding);
}

TEST(ShardedTimesTest, AnOpWaitsForItsGatherAndAStepForItsReduceScatter) {
  const Simulation s = simulate(one_stage({.gather = Gather::on_use, .reduce = Reduce::per_microbatch}),
                                costs_of_stages(1, 200, 0.5), cluster_of(2, kPair), identity_devices(2));
  for (std::size_t r = 0; r < 2; ++r) {
    const std::string i = std::to_string(r);
    EXPECT_EQ(timed_texts(s.trace.ranks[r]), (Times{"0F" + i + " 1.1-2.1", "0B" + i + " 3.2-5.2", "step 0 6.3-6.8"}));
    EXPECT_EQ(timed_texts(s.trace.collectives[r]),
              (Times{"gather 0 0-1.1", "gather 0 2.1-3.2", "reduce_scatter 0 5.2-6.3"}));
  }
  EXPECT_DOUBLE_EQ(s.end, 6.8);
  EXPECT_DOUBLE_EQ(s.bubble.makespan, 5.2 - 1.1);
}

TEST(ShardedTimesTest, APrefetchedGatherRunsBesideTheOpBefore) {
  const auto run = [](int prefetch) {
    const Placement both{{{Rank(0), Rank(1)}, {Rank(0), Rank(1)}}};
    const Program program =
        lower(parse_schedule("rank 0: 0F0 1F0 1I0 1W0 0B0\nrank 1: 0F1 1F1 1I1 1W1 0B1\n"), chain(2), both,
              WeightRule{}, {.gather = Gather::on_visit, .reduce = Reduce::accumulated, .prefetch = prefetch});
    return simulate(program, costs_of_stages(2, 200), cluster_of(2, kPair), identity_devices(2));
  };
  const Simulation horizon = run(1);
  EXPECT_EQ(timed_texts(horizon.trace.ranks[0]), (Times{"0F0 1.1-2.1", "1F0 2.2-3.2", "1I0 3.2-4.2", "1W0 4.2-5.2",
                                                        "0B0 5.3-7.3", "step 0 8.4-8.4", "step 1 8.4-8.4"}));
  // One engine: the scatter of stage 1 comes after the gather that was issued before it.
  EXPECT_EQ(timed_texts(horizon.trace.collectives[0]), (Times{"gather 0 0-1.1", "gather 1 1.1-2.2", "gather 0 4.2-5.3",
                                                              "reduce_scatter 1 5.3-6.4", "reduce_scatter 0 7.3-8.4"}));
  const Simulation late = run(0);
  EXPECT_EQ(timed_texts(late.trace.ranks[0]), (Times{"0F0 1.1-2.1", "1F0 3.2-4.2", "1I0 4.2-5.2", "1W0 5.2-6.2",
                                                     "0B0 8.4-10.4", "step 0 11.5-11.5", "step 1 11.5-11.5"}));
}

TEST(ShardedTimesTest, ANewGradientWaitsForTheBufferThatIsBeingScattered) {
  // The first backward's gradients leave from 5.1 to 6.2.
  const Simulation s = simulate(one_stage({.gather = Gather::once, .reduce = Reduce::per_microbatch},
                                          "rank 0: 0F0 0F2 0B0 0B2\nrank 1: 0F1 0F3 0B1 0B3\n"),
                                costs_of_stages(1, 200), cluster_of(2, kPair), identity_devices(2));
  EXPECT_EQ(timed_texts(s.trace.ranks[0]),
            (Times{"0F0 1.1-2.1", "0F2 2.1-3.1", "0B0 3.1-5.1", "0B2 6.2-8.2", "step 0 9.3-9.3"}));
}

TEST(ShardedTimesTest, ARingTakesOneStepLessThanItHasMembers) {
  const Placement three{{{Rank(0), Rank(1), Rank(2)}}};
  const Program program = lower(parse_schedule("rank 0: 0F0 0B0\nrank 1: 0F1 0B1\nrank 2: 0F2 0B2\n"), chain(1), three,
                                WeightRule{}, {.gather = Gather::once, .reduce = Reduce::accumulated});
  const Simulation s =
      simulate(program, costs_of_stages(1, 600),
               cluster_of(3, {link(0, 1, 100, 0.1), link(1, 2, 50, 0.2), link(0, 2, 100, 0.1)}), identity_devices(3));
  // Two steps of 200 bytes over the slowest link with the longest latency: 2 (4 + 0.2) s.
  EXPECT_EQ(timed_texts(s.trace.collectives[2]), (Times{"gather 0 0-8.4", "reduce_scatter 0 11.4-19.8"}));
}

TEST(ShardedTimesTest, HopsThatShareABusTakeTurns) {
  Link there = link(0, 1, 100, 0);
  there.duplex = false;  // both hops of the ring of two
  const Simulation s = simulate(one_stage({.gather = Gather::once, .reduce = Reduce::accumulated}),
                                costs_of_stages(1, 200), cluster_of(2, {there}), identity_devices(2));
  EXPECT_EQ(timed_texts(s.trace.collectives[0]), (Times{"gather 0 0-2", "reduce_scatter 0 5-7"}));
}

// Two pipelines of two stages: ranks 0, 1 and 2, 3. The card of device 1 takes in both what stage
// 0 sends and what its group's ring does.
Simulation two_pipelines(bool shared) {
  Link a = link(0, 1, 100, 0), b = link(3, 1, 100, 0);
  a.to_group = 5;
  b.to_group = shared ? 5 : 6;
  const Placement replicas{{{Rank(0), Rank(2)}, {Rank(1), Rank(3)}}};
  const Program program =
      lower(parse_schedule("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\nrank 2: 0F1 0B1\nrank 3: 1F1 1B1\n"), chain(2), replicas,
            WeightRule{}, {.gather = Gather::once, .reduce = Reduce::accumulated});
  Costs costs = costs_of_stages(2, 800);
  costs.stages[0].parameters = Bytes(0);
  costs.edges = {{StageId(0), StageId(1), Bytes(200)}};
  return simulate(program, costs, cluster_of(4, {a, b, link(2, 3, 100, 0), link(0, 2, 100, 0)}), identity_devices(4));
}

TEST(ShardedTimesTest, AGatherAndAMessageQueueForTheCardTheyShare) {
  // The gather of stage 1 takes the card until 4; the activation left at 1 and takes 2 s.
  EXPECT_EQ(timed_texts(two_pipelines(false).trace.ranks[1]).front(), "1F0 4-5");
  EXPECT_EQ(timed_texts(two_pipelines(true).trace.ranks[1]).front(), "1F0 6-7");
  EXPECT_EQ(timed_texts(two_pipelines(true).trace.ranks[3]).front(), "1F1 4-5");
}

TEST(ShardedTimesTest, StepsOfShardsAreFollowedByTheNextIterationsGather) {
  const Simulation s =
      simulate(one_stage({.gather = Gather::after_step, .reduce = Reduce::accumulated}), costs_of_stages(1, 200, 0.5),
               cluster_of(2, kPair), identity_devices(2), {.iterations = 3});
  // F and B 3 s, scatter 1.1, step 0.5, gather 1.1.
  EXPECT_DOUBLE_EQ(s.update_end[0], 4.6);
  EXPECT_DOUBLE_EQ(s.update_end[1] - s.update_end[0], 5.7);
  EXPECT_DOUBLE_EQ(s.end, 3 * 5.7);
}

TEST(ShardedTimesTest, InSteadyStateEveryUpdateGathersAgain) {
  const Simulation s = simulate(one_stage({.gather = Gather::once, .reduce = Reduce::accumulated}),
                                costs_of_stages(1, 200), cluster_of(2, kPair), identity_devices(2), {.iterations = 3});
  EXPECT_DOUBLE_EQ(s.update_end[2] - s.update_end[1], 1.1 + 3 + 1.1);
}

// Of 101 parameters a member of two holds 51, padded to 102 together. Momentum: two values each.
const StageMemory kWhole{.weights = Bytes(404),
                         .gradients = Bytes(404),
                         .optimizer = Bytes(808),
                         .stash = Bytes(10),
                         .weight_stash = Bytes(7),
                         .input = Bytes(0)};

TEST(ShardedMemoryTest, CopiesLastFromGatherToFreeAndGradientsUntilTheirScatter) {
  const RankMemory m =
      memory(one_stage({.gather = Gather::on_use, .reduce = Reduce::per_microbatch}), {kWhole}, true)[0];
  constexpr std::int64_t shard = 204, whole = 408, always = 2 * shard + 408;
  std::vector<std::int64_t> totals;
  for (const MemoryPoint& point : m.timeline) totals.push_back(point.total().value);
  EXPECT_EQ(totals, (std::vector<std::int64_t>{always + whole,           // gather
                                               always + whole + 10,      // F
                                               always + 10,              // free
                                               always + whole + 10,      // gather
                                               always + 2 * whole + 10,  // B
                                               always + whole,           // free
                                               always, always}));        // scatter, step
  EXPECT_EQ(m.peak.weights, Bytes(shard + whole));
  EXPECT_EQ(m.peak.gathered, Bytes(whole));
  EXPECT_EQ(m.peak.gradients, Bytes(shard + whole));
  EXPECT_EQ(m.peak.unscattered, Bytes(whole));
  EXPECT_EQ(m.peak.optimizer, Bytes(408));
}

TEST(ShardedMemoryTest, OptimizerStateAloneKeepsTheWeightsWhole) {
  const RankMemory m =
      memory(one_stage({.gather = Gather::after_step, .reduce = Reduce::accumulated}), {kWhole}, true)[1];
  EXPECT_EQ(m.peak.weights, Bytes(408));
  EXPECT_EQ(m.peak.gathered, Bytes(204));
  EXPECT_EQ(m.peak.gradients, Bytes(204 + 408));
  EXPECT_EQ(m.peak.optimizer, Bytes(408));
  EXPECT_EQ(m.timeline.back().total(), Bytes(408 + 204 + 408));
}

TEST(ShardedMemoryTest, APrefetchedCopyIsResidentBesideTheOneInUse) {
  const auto peak = [](int prefetch) {
    const Placement both{{{Rank(0), Rank(1)}, {Rank(0), Rank(1)}}};
    const Program program =
        lower(parse_schedule("rank 0: 0F0 1F0 1B0 0B0\nrank 1: 0F1 1F1 1B1 0B1\n"), chain(2), both, WeightRule{},
              {.gather = Gather::on_visit, .reduce = Reduce::accumulated, .prefetch = prefetch});
    Bytes most;
    const std::vector<RankMemory> ranks = memory(program, {kWhole, kWhole}, true);
    for (const MemoryPoint& p : ranks[0].timeline) most = std::max(most, p.gathered);
    return most;
  };
  EXPECT_EQ(peak(0), Bytes(408));
  EXPECT_EQ(peak(1), Bytes(816));
}

}  // namespace
}  // namespace sluice
