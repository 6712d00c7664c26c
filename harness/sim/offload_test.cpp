// Moves of stashes on the virtual clock: hand-computed times and bytes.
#include <gtest/gtest.h>

#include <cstdio>

#include "harness/base/error.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"
#include "harness/sim/timed_texts.h"

namespace sluice {
namespace {

using MoveKind = StashMove::Kind;

using Texts = std::vector<std::string>;

// 1F1B of two stages, F = 1 s, B = 2 s; micro-batch 1 of stage 0 moves, its free before op `free` of rank 0.
Simulation one_stash_moves(double copy_seconds, std::size_t free) {
  const Schedule schedule = parse_schedule("rank 0: 0F0 0F1 0B0 0F2 0B1 0B2\nrank 1: 1F0 1B0 1F1 1B1 1F2 1B2\n");
  const Offload offload{{{{MoveKind::out, 2, StageId(0), Micro(1)},
                          {MoveKind::free, free, StageId(0), Micro(1)},
                          {MoveKind::back, 4, StageId(0), Micro(1)}},
                         {}}};
  Costs costs = uniform_costs(2, 1, 1, 1);
  costs.host_copies = {Seconds(copy_seconds), Seconds(copy_seconds)};
  return simulate(lower(schedule, chain(2), one_stage_per_rank(2), {}, {}, {}, offload), costs,
                  latency_cluster(2, Seconds(0)), identity_devices(2));
}

TEST(OffloadTimesTest, CopiesRunBesideTheOpsAndABackwardWaitsForItsOwn) {
  const Simulation s = one_stash_moves(1.5, 3);
  EXPECT_EQ(timed_texts(s.trace.ranks[0]),
            (Texts{"0F0 0-1", "0F1 1-2", "0B0 4-6", "0F2 6-7", "0B1 8.5-10.5", "0B2 10.5-12.5", "step 0 12.5-12.5"}));
  EXPECT_EQ(timed_texts(s.trace.host_copies[0]), (Texts{"stash_out 0 1 2-3.5", "stash_back 0 1 7-8.5"}));
  EXPECT_TRUE(s.trace.host_copies[1].empty());
  EXPECT_DOUBLE_EQ(s.end, 12.5);
}

TEST(OffloadTimesTest, AFreeWaitsForItsCopy) {
  const Simulation s = one_stash_moves(3, 2);
  EXPECT_EQ(timed_texts(s.trace.ranks[0]),
            (Texts{"0F0 0-1", "0F1 1-2", "0B0 5-7", "0F2 7-8", "0B1 11-13", "0B2 13-15", "step 0 15-15"}));
}

// One rank, three stashes, copies of 2 s: they take turns on its link.
TEST(OffloadTimesTest, CopiesOfARankTakeTurns) {
  const Schedule schedule = parse_schedule("rank 0: 0F0 0F1 0F2 0F3 0B3 0B2 0B1 0B0\n");
  Costs costs = uniform_costs(1, 1, 1, 1);
  costs.host_copies = {Seconds(2)};
  const Simulation s = simulate(lower(schedule, chain(1), one_stage_per_rank(1), {}, {}, {}, offload_all(schedule)),
                                costs, latency_cluster(1, Seconds(0)), identity_devices(1));
  // 0F2 waits until 3 for the free of 0 0, 0F3 until 5 for 0 1, 0B3 until 7 for 0 2; that comes back from 7 to 9.
  EXPECT_EQ(timed_texts(s.trace.host_copies[0]),
            (Texts{"stash_out 0 0 1-3", "stash_out 0 1 3-5", "stash_out 0 2 5-7", "stash_back 0 2 7-9",
                   "stash_back 0 1 9-11", "stash_back 0 0 11-13"}));
  EXPECT_EQ(timed_texts(s.trace.ranks[0]), (Texts{"0F0 0-1", "0F1 1-2", "0F2 3-4", "0F3 5-6", "0B3 7-9", "0B2 9-11",
                                                  "0B1 11-13", "0B0 13-15", "step 0 15-15"}));
}

TEST(OffloadTimesTest, ADeviceWithoutAHostLinkIsRejected) {
  const Schedule schedule = parse_schedule("rank 0: 0F0 0F1 0F2 0F3 0B3 0B2 0B1 0B0\n");
  const Program program = lower(schedule, chain(1), one_stage_per_rank(1), {}, {}, {}, offload_all(schedule));
  EXPECT_THROW(simulate(program, uniform_costs(1, 1, 1, 1), latency_cluster(1, Seconds(0)), identity_devices(1)),
               InputError);
}

// 100 bytes a stash, in the order of the ops and moves above.
TEST(OffloadMemoryTest, CountsWhatIsOnTheDeviceAndOnTheHost) {
  const Schedule schedule = parse_schedule("rank 0: 0F0 0F1 0F2 0F3 0B3 0B2 0B1 0B0\n");
  const Program program = lower(schedule, chain(1), one_stage_per_rank(1), {}, {}, {}, offload_all(schedule));
  const RankMemory held = memory(program, {{.stash = Bytes(100)}}, true).front();
  std::vector<std::pair<std::int64_t, std::int64_t>> points;
  for (const MemoryPoint& p : held.timeline) points.emplace_back(p.activations.value, p.host.value);
  EXPECT_EQ(points, (std::vector<std::pair<std::int64_t, std::int64_t>>{{100, 0},    // 0F0
                                                                        {100, 100},  // out 0
                                                                        {200, 100},  // 0F1
                                                                        {200, 200},  // out 1
                                                                        {100, 200},  // free 0
                                                                        {200, 200},  // 0F2
                                                                        {200, 300},  // out 2
                                                                        {100, 300},  // free 1
                                                                        {200, 300},  // 0F3
                                                                        {100, 300},  // free 2
                                                                        {200, 300},  // back 2
                                                                        {200, 300},  // 0B3
                                                                        {200, 300},  // back 1
                                                                        {200, 300},  // 0B2
                                                                        {200, 200},  // back 0
                                                                        {200, 200},  // 0B1
                                                                        {100, 100},  // 0B0
                                                                        {0, 0}}));   // step
  EXPECT_EQ(held.peak.activations, Bytes(200));
  EXPECT_EQ(held.peak.host, Bytes(300));
  EXPECT_EQ(held.peak.total(), Bytes(200));
}

}  // namespace
}  // namespace sluice
