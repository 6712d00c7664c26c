#include "harness/sim/communication.h"

#include <gtest/gtest.h>

#include "harness/pipeline/replicas.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/made_cluster.h"

namespace sluice {
namespace {

using Gather = Sharding::Gather;
using Reduce = Sharding::Reduce;

// Stages of 600 bytes of weights, 50 bytes of activations between them.
Costs costs_of_chain(int stages) {
  Costs costs = uniform_costs(stages, 1, 1, 1);
  for (StageCost& stage : costs.stages) stage.parameters = Bytes(600);
  for (int s = 0; s + 1 < stages; ++s) costs.edges.push_back({StageId(s), StageId(s + 1), Bytes(50)});
  return costs;
}

TEST(SentBytesTest, AnInteriorRankSendsAnActivationAndAGradientOfEveryMicroBatch) {
  const Program program = lower(example_1f1b(3, 4), chain(3), one_stage_per_rank(3), WeightRule{});
  const auto sent = sent_bytes(program, costs_of_chain(3));
  EXPECT_DOUBLE_EQ(sent[0].messages, 4 * 50);
  EXPECT_DOUBLE_EQ(sent[1].messages, 2 * 4 * 50);
  EXPECT_DOUBLE_EQ(sent[2].messages, 4 * 50);
  EXPECT_DOUBLE_EQ(sent[1].total(), sent[1].messages);
}

TEST(SentBytesTest, AnUpdateOfAnAsynchronousRunHasItsShare) {
  const Program program =
      lower(example_1f1b(2, 8), chain(2), one_stage_per_rank(2), {.update = WeightRule::Update::every_backward});
  EXPECT_DOUBLE_EQ(sent_bytes(program, costs_of_chain(2))[0].messages, 50);
}

// One stage on three ranks, `m` micro-batches each.
SentBytes shared_by_three(int m, const Sharding& sharding) {
  Schedule one = empty_schedule(1, m);
  for (int i = 0; i < m; ++i) {
    one.ranks[0].push_back(forward_op(0, i));
    one.ranks[0].push_back(backward_op(0, i));
  }
  Placement placement{{{Rank(0), Rank(1), Rank(2)}}};
  for (int i = 0; i < 3 * m; ++i) placement.replica_of.push_back(static_cast<std::size_t>(i / m));
  const Program program = lower(replicate(one, {3}), chain(1), placement, WeightRule{}, sharding);
  return sent_bytes(program, costs_of_chain(1))[1];
}

// In units of the weights times (n - 1) / n: 3 m, 2 and 2 m + 1 (specs, section 10); replicas 2.
TEST(SentBytesTest, WaysToAccumulateAreTheClosedForms) {
  constexpr double unit = 600 * 2 / 3.0;
  for (const int m : {1, 2, 5}) {
    EXPECT_DOUBLE_EQ(shared_by_three(m, {}).reductions, 2 * unit);
    const SentBytes reshard = shared_by_three(m, {.gather = Gather::on_use, .reduce = Reduce::per_microbatch});
    EXPECT_DOUBLE_EQ(reshard.gathers, 2 * m * unit);
    EXPECT_DOUBLE_EQ(reshard.reductions, m * unit);
    const SentBytes keep = shared_by_three(m, {.gather = Gather::once, .reduce = Reduce::accumulated});
    EXPECT_DOUBLE_EQ(keep.total(), 2 * unit);
    const SentBytes no_sync = shared_by_three(m, {.gather = Gather::on_use, .reduce = Reduce::accumulated});
    EXPECT_DOUBLE_EQ(no_sync.total(), (2 * m + 1) * unit);
    const SentBytes optimizer = shared_by_three(m, {.gather = Gather::after_step, .reduce = Reduce::accumulated});
    EXPECT_DOUBLE_EQ(optimizer.total(), 2 * unit);
  }
}

}  // namespace
}  // namespace sluice
