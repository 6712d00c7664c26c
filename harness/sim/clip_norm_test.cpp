// Clipping by the global norm: no stage steps before all gradients are there and their norm is summed over the ranks.
// By hand.
#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/program/message_order.h"
#include "harness/sim/communication.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

// Zero bubble h2 (two ranks, four micro-batches), F = I = W = 1: rank 0 is busy from 0 to 12, rank 1 from 1 to 13.
const char* const kSkewed =
    "rank 0: 0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3\n"
    "rank 1: 1F0 1I0 1F1 1I1 1F2 1I2 1W0 1F3 1I3 1W1 1W2 1W3\n";
const char* const kOne = "rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n";

Program clipping(const std::string& schedule) {
  return lower(parse_schedule(schedule), chain(2), one_stage_per_rank(2), {}, {}, {.clip_norm = true});
}

std::vector<double> ends_of_updates(const std::string& schedule, double step_seconds, double latency) {
  Costs costs = uniform_costs(2, 1, 1, 1);
  for (StageCost& stage : costs.stages) stage.update = Seconds(step_seconds);
  return simulate(clipping(schedule), costs, latency_cluster(2, Seconds(latency)), identity_devices(2),
                  {.iterations = 3})
      .update_end;
}

std::vector<std::string> last_of(const std::vector<Instruction>& rank, std::size_t count) {
  std::vector<std::string> texts;
  for (std::size_t k = rank.size() - count; k < rank.size(); ++k) texts.push_back(to_text(rank[k]));
  return texts;
}

TEST(ClipNormTest, EveryRankSumsTheNormBeforeItsFirstStep) {
  const Program program = clipping(kOne);
  EXPECT_EQ(program.step_groups, (std::vector<std::vector<Rank>>{{Rank(0), Rank(1)}}));
  for (std::size_t r = 0; r < 2; ++r)
    EXPECT_EQ(last_of(program.ranks[r], 2), (std::vector<std::string>{"reduce_norm", "step " + std::to_string(r)}));
  EXPECT_TRUE(check(program).empty());
  EXPECT_TRUE(check(in_rendezvous_order(program)).empty());
}

TEST(ClipNormTest, ReplicasReduceBeforeTheNormAndAllStagesOfARankStepAfterIt) {
  // Two stages, each on both ranks, one direction each way.
  const Schedule both = parse_schedule("rank 0: 0F0 1F0 1B0 0B0\nrank 1: 0F1 1F1 1B1 0B1\n");
  const Placement placement{{{Rank(0), Rank(1)}, {Rank(0), Rank(1)}}};
  const Program program = lower(both, chain(2), placement, {}, {}, {.clip_norm = true});
  const std::vector<std::string> end{"reduce 0", "reduce 1", "reduce_norm", "step 0", "step 1"};
  EXPECT_EQ(last_of(program.ranks[0], 5), end);
  EXPECT_EQ(last_of(program.ranks[1], 5), end);
}

TEST(ClipNormTest, TheSkewOfASchedulesRanksIsLostInEveryUpdate) {
  // Without clipping the updates end at 15, 29 and 43 (step_barrier_test.cpp).
  EXPECT_EQ(ends_of_updates(kSkewed, 2, 0), (std::vector<double>{15, 30, 45}));
}

TEST(ClipNormTest, TheNormTakesAnAllReduce) {
  // A latency of 1: F at 0 and 2, B (2) at 3 and 6 to 8. A ring of two takes two steps.
  EXPECT_EQ(ends_of_updates(kOne, 0, 1), (std::vector<double>{10, 20, 30}));
  EXPECT_EQ(ends_of_updates(kOne, 3, 1), (std::vector<double>{13, 26, 39}));
}

TEST(ClipNormTest, EachRankSendsANumberPerLayerTwice) {
  Costs costs = uniform_costs(2, 1, 1, 1);
  costs.norm = Bytes(8 * 5);
  for (const SentBytes& sent : sent_bytes(clipping(kOne), costs)) EXPECT_EQ(sent.reductions, 2 * 40 * 0.5);
}

TEST(ClipNormTest, ASystemWithoutAFlushIsRejected) {
  WeightRule asynchronous;
  asynchronous.update = WeightRule::Update::every_backward;
  EXPECT_EQ(error_of([&] {
              lower(parse_schedule(kOne), chain(2), one_stage_per_rank(2), asynchronous, {}, {.clip_norm = true});
            }),
            "clip_norm: needs a system that updates once after all backwards");
}

}  // namespace
}  // namespace sluice
