#include "harness/sim/waiting_messages.h"

#include <gtest/gtest.h>

#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

// Stages of 100 bytes of weights and as many of gradients, and 10 a micro-batch; activations of 8 bytes.
std::vector<RankMemory> two_ranks(double second_forward) {
  const Program program = lower(parse_schedule("rank 0: 0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3\n"
                                               "rank 1: 1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3\n"),
                                chain(2), one_stage_per_rank(2), {});
  Costs costs = uniform_costs(2, 1, 1, 0);
  costs.stages[1].forward = Seconds(second_forward);
  costs.edges = {{StageId(0), StageId(1), Bytes(8)}};
  const StageMemory stage{
      .weights = Bytes(100), .gradients = Bytes(100), .stash = Bytes(10), .temporaries = {.forward = Bytes(1)}};
  std::vector<RankMemory> result = memory(program, {stage, stage}, true);
  add_waiting_messages(program, simulate(program, costs, latency_cluster(2, Seconds(0)), identity_devices(2)).trace,
                       result);
  return result;
}

TEST(WaitingMessagesTest, ARankHoldsWhatItsNeighbourHasNotTaken) {
  // Forwards of the second rank: 1-5, 5-9, 9-13, 13-17. At 4, when all four are sent, the last three wait.
  const std::vector<RankMemory> ranks = two_ranks(4);
  EXPECT_EQ(ranks[0].peak.total(), Bytes(100 + 100 + 4 * 10 + 3 * 8));
  EXPECT_EQ(ranks[0].peak.buffers, Bytes(3 * 8));
  EXPECT_EQ(ranks[1].peak.total(), Bytes(100 + 100 + 4 * 10));  // its gradients are taken when they are sent
}

TEST(WaitingMessagesTest, AMessageTakenAsTheNextOpBeginsDoesNotMeetWhatTheOpAllocates) {
  const Program program =
      lower(parse_schedule("rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1F1 1B0 1B1\n"), chain(2), one_stage_per_rank(2), {});
  Costs costs = uniform_costs(2, 1, 1, 0);
  costs.edges = {{StageId(0), StageId(1), Bytes(8)}};
  std::vector<StageMemory> stages(2, {.stash = Bytes(10), .temporaries = {.forward = Bytes(30)}});
  std::vector<RankMemory> ranks = memory(program, stages, true);
  const Cluster cluster = latency_cluster(2, Seconds(0.1));  // the first is on its way until 1.1, F1 ends at 2
  add_waiting_messages(program, simulate(program, costs, cluster, identity_devices(2)).trace, ranks);
  EXPECT_EQ(ranks[0].peak.total(), Bytes(10 + 30));  // of F1; 20 and a message are left after it
}

TEST(WaitingMessagesTest, ANeighbourThatKeepsUpLeavesNoneWaiting) {
  EXPECT_EQ(two_ranks(1)[0].peak.total(), Bytes(100 + 100 + 4 * 10));
  EXPECT_EQ(two_ranks(0.5)[0].peak.total(), Bytes(100 + 100 + 4 * 10));
}

}  // namespace
}  // namespace sluice
