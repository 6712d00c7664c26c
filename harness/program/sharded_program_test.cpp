// Lowering of sharded stages: hand-written programs, and what the checker finds in broken ones.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/program/program.h"

namespace sluice {
namespace {

using Gather = Sharding::Gather;
using Reduce = Sharding::Reduce;

const Placement kTwoRanks{{{Rank(0), Rank(1)}}};

std::string line_of(const std::vector<Instruction>& rank) {
  std::string text;
  for (const Instruction& i : rank) text += (text.empty() ? "" : "; ") + to_text(i);
  return text;
}

// Two ranks that run the whole model, rank r the micro-batches r and r + 2.
Program data_parallel(const Sharding& sharding) {
  return lower(parse_schedule("rank 0: 0F0 0B0 0F2 0B2\nrank 1: 0F1 0B1 0F3 0B3\n"), chain(1), kTwoRanks, WeightRule{},
               sharding);
}

TEST(ShardedProgramTest, WeightsOnUseAndGradientsOfEveryMicroBatch) {
  const Program program = data_parallel({.gather = Gather::on_use, .reduce = Reduce::per_microbatch});
  EXPECT_EQ(line_of(program.ranks[1]),
            "gather 0; 0F1; free 0; gather 0; 0B1; free 0; reduce_scatter 0; "
            "gather 0; 0F3; free 0; gather 0; 0B3; free 0; reduce_scatter 0; step 0");
  EXPECT_TRUE(program.sharded(StageId(0)));
  EXPECT_EQ(program.ranks[1][0].channel, 0);
  EXPECT_EQ(program.ranks[1][0].micro, Micro(1));
  EXPECT_EQ(program.ranks[1][6].micro, Micro(1));
}

TEST(ShardedProgramTest, WeightsOnceAndGradientsOnce) {
  EXPECT_EQ(line_of(data_parallel({.gather = Gather::once, .reduce = Reduce::accumulated}).ranks[0]),
            "gather 0; 0F0; 0B0; 0F2; 0B2; free 0; reduce_scatter 0; step 0");
}

TEST(ShardedProgramTest, OptimizerStateAloneGathersTheNewVersionAfterTheStep) {
  const Program program = data_parallel({.gather = Gather::after_step, .reduce = Reduce::accumulated});
  EXPECT_EQ(line_of(program.ranks[0]), "0F0; 0B0; 0F2; 0B2; reduce_scatter 0; step 0; gather 0");
  EXPECT_EQ(program.ranks[0].back().version, 1);
}

TEST(ShardedProgramTest, AStageOnOneRankIsNotSharded) {
  const Program program = lower(parse_schedule("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n"), chain(2), one_stage_per_rank(2),
                                WeightRule{}, {.gather = Gather::on_use, .reduce = Reduce::per_microbatch});
  EXPECT_EQ(line_of(program.ranks[0]), "0F0; send_activation 0->1 0; receive_gradient 1->0 0; 0B0; step 0");
}

// Two stages, each on both ranks: rank r runs micro-batch r through both.
Program two_stages(int prefetch, Gather gather = Gather::on_visit) {
  return lower(parse_schedule("rank 0: 0F0 1F0 1I0 1W0 0B0\nrank 1: 0F1 1F1 1I1 1W1 0B1\n"), chain(2),
               {{{Rank(0), Rank(1)}, {Rank(0), Rank(1)}}}, WeightRule{},
               {.gather = gather, .reduce = Reduce::accumulated, .prefetch = prefetch});
}

TEST(ShardedProgramTest, GathersAreIssuedThatManyOpsAhead) {
  EXPECT_EQ(line_of(two_stages(0).ranks[0]),
            "gather 0; 0F0; free 0; gather 1; 1F0; 1I0; free 1; 1W0; reduce_scatter 1; "
            "gather 0; 0B0; free 0; reduce_scatter 0; step 0; step 1");
  EXPECT_EQ(line_of(two_stages(1).ranks[0]),
            "gather 0; gather 1; 0F0; free 0; 1F0; 1I0; free 1; gather 0; 1W0; reduce_scatter 1; "
            "0B0; free 0; reduce_scatter 0; step 0; step 1");
  EXPECT_EQ(line_of(two_stages(2).ranks[0]),
            "gather 0; gather 1; 0F0; free 0; 1F0; gather 0; 1I0; free 1; 1W0; reduce_scatter 1; "
            "0B0; free 0; reduce_scatter 0; step 0; step 1");
}

TEST(ShardedProgramTest, ACopyIsGatheredAgainOnlyAfterTheLastWasFreed) {
  // The backward of stage 1 uses what its forward used: nothing can be gathered in parallel.
  EXPECT_EQ(line_of(two_stages(4, Gather::on_use).ranks[0]),
            "gather 0; gather 1; 0F0; free 0; gather 0; 1F0; free 1; gather 1; 1I0; free 1; 1W0; "
            "reduce_scatter 1; 0B0; free 0; reduce_scatter 0; step 0; step 1");
}

TEST(ShardedProgramTest, APairIsOneStep) {
  // Both ops of the pair use stage 0: one copy serves them; the collectives stand around the pair.
  const Program program = lower(parse_schedule("rank 0: 0F0 (0F2;0B0) 0B2\nrank 1: 0F1 (0F3;0B1) 0B3\n"), chain(1),
                                kTwoRanks, WeightRule{}, {.gather = Gather::on_use, .reduce = Reduce::per_microbatch});
  EXPECT_EQ(line_of(program.ranks[0]),
            "gather 0; 0F0; free 0; gather 0; 0F2; 0B0; free 0; reduce_scatter 0; "
            "gather 0; 0B2; free 0; reduce_scatter 0; step 0");
}

TEST(ShardedProgramTest, GathersStandBeforeTheReceivesOfTheOpTheyRunBeside) {
  // Two pipelines of two stages, ranks 0, 1 and 2, 3.
  const Placement replicas{{{Rank(0), Rank(2)}, {Rank(1), Rank(3)}}};
  const Program program =
      lower(parse_schedule("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\nrank 2: 0F1 0B1\nrank 3: 1F1 1B1\n"), chain(2), replicas,
            WeightRule{}, {.gather = Gather::on_use, .reduce = Reduce::per_microbatch});
  EXPECT_EQ(line_of(program.ranks[3]),
            "gather 1; receive_activation 0->1 1; 1F1; free 1; gather 1; 1B1; "
            "send_gradient 1->0 1; free 1; reduce_scatter 1; step 1");
}

TEST(ShardedProgramTest, GroupsThatDoNotMeetAreRejected) {
  EXPECT_EQ(error_of([] {
              checked(lower(parse_schedule("rank 0: 0F0 0B0 0F2 0B2\nrank 1: 0F1 0B1\n"), chain(1), kTwoRanks,
                            WeightRule{}, {.gather = Gather::on_use, .reduce = Reduce::per_microbatch}));
            }),
            "schedule: collective 3 of stage 0: rank 0 is at gather 0, rank 1 at its end; its "
            "ranks need the same number of micro-batches");
  // Where a rank gathers and scatters once, its share may be smaller.
  EXPECT_EQ(error_of([] {
              checked(lower(parse_schedule("rank 0: 0F0 0B0 0F2 0B2\nrank 1: 0F1 0B1\n"), chain(1), kTwoRanks,
                            WeightRule{}, {.gather = Gather::once, .reduce = Reduce::accumulated}));
            }),
            "no error");
}

TEST(ShardedProgramTest, RulesWithoutAFlushAreRejected) {
  EXPECT_EQ(error_of([] {
              lower(parse_schedule("rank 0: 0F0 0B0\nrank 1: 0F1 0B1\n"), chain(1), kTwoRanks,
                    {.update = WeightRule::Update::every_backward},
                    {.gather = Gather::once, .reduce = Reduce::accumulated});
            }),
            "sharding: the system updates without a flush, which needs whole weights; use it with "
            "replicas");
}

// Groups whose members come to two stages' collectives in different orders wait for one another,
// whatever each stage's own list says.
TEST(ShardedProgramTest, CollectivesOfTwoStagesInDifferentOrdersAreADeadlock) {
  Program program = two_stages(1);
  std::swap(program.ranks[1][0], program.ranks[1][1]);
  const auto found = check(program);
  expect_only(found, Violation::Kind::deadlock,
              "ranks wait for one another in a cycle: rank 0 at gather 0 for rank 1, rank 1 at gather 1 for rank 0");
}

// The program with every instruction of rank 0 that fits `text` taken out.
std::vector<Violation> without(Program program, const std::string& text) {
  for (auto& rank : program.ranks) std::erase_if(rank, [&](const Instruction& i) { return to_text(i) == text; });
  return check(program);
}

TEST(ShardedProgramTest, TheCheckerFindsWeightsThatAreNotThere) {
  const Program good = data_parallel({.gather = Gather::once, .reduce = Reduce::accumulated});
  EXPECT_TRUE(check(good).empty());
  const auto ungathered = without(good, "gather 0");
  ASSERT_FALSE(ungathered.empty());
  EXPECT_EQ(ungathered[0].kind, Violation::Kind::not_gathered);
  EXPECT_EQ(ungathered[0].text, "rank 0: 0F0 reads version 0 of the weights of stage 0, which are not gathered");
  // A copy that outlives the step would serve old weights to the next update.
  EXPECT_EQ(without(good, "free 0")[0].text, "rank 0: ends with version 0 of the weights of stage 0 gathered");
  EXPECT_EQ(without(good, "reduce_scatter 0")[0].text,
            "rank 0: step 0 misses 2 gradients that no reduce_scatter has summed");
  Program twice = good;
  for (auto& rank : twice.ranks) rank.insert(rank.begin(), rank.front());
  EXPECT_EQ(check(twice)[0].text, "rank 0: gather 0: they are there");
  Program late = good;
  for (auto& rank : late.ranks) {  // the free before the last backward
    std::swap(rank[4], rank[5]);
  }
  EXPECT_EQ(check(late)[0].text, "rank 0: 0B2 reads version 0 of the weights of stage 0, which are not gathered");
}

TEST(ShardedProgramTest, TheCheckerFindsWeightsOfAnOldVersion) {
  const Program good = data_parallel({.gather = Gather::after_step, .reduce = Reduce::accumulated});
  EXPECT_EQ(without(good, "gather 0")[0].text,
            "rank 0: ends with version 0 of the weights of stage 0 gathered, its step has made 1");
  Program early = good;
  for (auto& rank : early.ranks) std::swap(rank[rank.size() - 1], rank[rank.size() - 2]);
  EXPECT_EQ(check(early)[0].text, "rank 0: gather 0 of version 1, the shards are at 0");
}

// Replicas of a random schedule that are alike except for their micro-batches, with every way to
// shard: nothing deadlocks, and a rank gathers as often as its visits say.
RC_GTEST_PROP(ShardedProgramTest, ReplicasOfOneOrderAlwaysMeet, (unsigned seed)) {
  const ExampleProblem one = random_problem(seed, false);
  const int replicas = *rc::gen::inRange(2, 4);
  const auto p = static_cast<int>(one.schedule.ranks.size());
  const int m = one.schedule.microbatches;
  Schedule schedule = empty_schedule(p * replicas, m * replicas);
  Placement placement{std::vector<std::vector<Rank>>(one.graph.size()), {}};
  for (int d = 0; d < replicas; ++d) {
    for (std::size_t s = 0; s < one.graph.size(); ++s)
      placement.stages[s].emplace_back(d * p + one.placement.stages[s].front().value);
    for (int r = 0; r < p; ++r)
      for (Op op : one.schedule.ranks[r]) {
        op.micro = Micro(op.micro.value + d * m);
        schedule.ranks[d * p + r].push_back(op);
      }
    placement.replica_of.insert(placement.replica_of.end(), static_cast<std::size_t>(m), static_cast<std::size_t>(d));
  }
  const Sharding sharding{
      .gather = *rc::gen::element(Gather::once, Gather::on_visit, Gather::on_use, Gather::after_step),
      .reduce = *rc::gen::element(Reduce::per_microbatch, Reduce::accumulated),
      .microbatches_per_reduction = *rc::gen::inRange(0, 3),
      .prefetch = *rc::gen::inRange(0, 4)};
  const Program program = lower(schedule, one.graph, placement, WeightRule{}, sharding);
  RC_ASSERT(check(program).empty());
  const auto where = collectives(schedule, sharding);
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const auto count = [&](Opcode opcode) {
      return static_cast<std::size_t>(std::ranges::count(program.ranks[r], opcode, &Instruction::opcode));
    };
    RC_ASSERT(count(Opcode::reduce_scatter) == where[r].reductions.size());
    if (sharding.gather == Gather::after_step) {
      RC_ASSERT(count(Opcode::gather_weights) == count(Opcode::optimizer_step));
    } else {
      RC_ASSERT(count(Opcode::gather_weights) == where[r].gathers.size());
      RC_ASSERT(count(Opcode::free_weights) == where[r].gathers.size());
    }
  }
}

}  // namespace
}  // namespace sluice
