#include "harness/pipeline/sharding.h"

#include <gtest/gtest.h>

#include "harness/program/example_schedules.h"

namespace sluice {
namespace {

using Gather = Sharding::Gather;
using Reduce = Sharding::Reduce;

// "0F0" for a gather before that op, or a reduction after it.
std::vector<std::string> places(const Schedule& schedule, const std::vector<Collective>& list) {
  std::vector<std::string> result;
  for (const Collective& c : list) {
    EXPECT_EQ(schedule.ranks[0][c.op].stage, c.stage);
    result.push_back(to_text(schedule.ranks[0][c.op]));
  }
  return result;
}

std::vector<std::string> gathers(const std::string& text, Gather gather) {
  const Schedule schedule = parse_schedule("rank 0: " + text);
  return places(schedule, collectives(schedule, {.gather = gather})[0].gathers);
}

std::vector<std::string> reductions(const std::string& text, Reduce reduce, int microbatches_per_reduction = 0) {
  const Schedule schedule = parse_schedule("rank 0: " + text);
  return places(schedule,
                collectives(schedule, {.reduce = reduce, .microbatches_per_reduction = microbatches_per_reduction})[0]
                    .reductions);
}

using Places = std::vector<std::string>;

TEST(ShardingTest, GathersStandWhereTheRuleNeedsWeights) {
  const char* text = "0F0 0F1 2F0 2I0 2F1 2I1 2W1 0B0 2W0 0B1";
  EXPECT_EQ(gathers(text, Gather::never), Places{});
  EXPECT_EQ(gathers(text, Gather::once), (Places{"0F0", "2F0"}));
  // A W needs no weights, so 2W0 between two backwards of stage 0 is no visit.
  EXPECT_EQ(gathers(text, Gather::on_visit), (Places{"0F0", "2F0", "0B0"}));
  EXPECT_EQ(gathers(text, Gather::on_use), (Places{"0F0", "0F1", "2F0", "2I0", "2F1", "2I1", "0B0", "0B1"}));
}

TEST(ShardingTest, ReductionsStandAfterTheLastGradientTheySum) {
  const char* text = "0F0 0F1 0F2 0I0 0I1 0W1 0W0 0B2";
  EXPECT_EQ(reductions(text, Reduce::never), Places{});
  EXPECT_EQ(reductions(text, Reduce::per_microbatch), (Places{"0W1", "0W0", "0B2"}));
  EXPECT_EQ(reductions(text, Reduce::accumulated), Places{"0B2"});
  EXPECT_EQ(reductions(text, Reduce::accumulated, 2), (Places{"0W0", "0B2"}));
  EXPECT_EQ(reductions("0F0 1F0 1B0 0B0", Reduce::accumulated), (Places{"1B0", "0B0"}));
}

TEST(ShardingTest, AReductionCountsTheMicroBatchesOfItsRank) {
  // Rank 1 runs micro-batches 3, 4 and 5: a reduction of two sums 3 and 4.
  const Schedule schedule = parse_schedule("rank 0: 0F0 0B0 0F1 0B1 0F2 0B2\nrank 1: 0F3 0B3 0F4 0B4 0F5 0B5\n");
  const auto found = collectives(schedule, {.reduce = Reduce::accumulated, .microbatches_per_reduction = 2});
  ASSERT_EQ(found[1].reductions.size(), 2u);
  EXPECT_EQ(found[1].reductions[0].op, 3u);
  EXPECT_EQ(found[1].reductions[1].op, 5u);
}

// Volumes of data-parallel ZeRO-3 over m micro-batches, in parameters moved: 3 m, 2 and 2 m + 1.
TEST(ShardingTest, AccumulationModesOfFullySharding) {
  const char* text = "0F0 0B0 0F1 0B1 0F2 0B2 0F3 0B3";
  const auto moved = [&](Gather gather, Reduce reduce) {
    return gathers(text, gather).size() + reductions(text, reduce).size();
  };
  EXPECT_EQ(moved(Gather::on_use, Reduce::per_microbatch), 12u);
  EXPECT_EQ(moved(Gather::once, Reduce::accumulated), 2u);
  EXPECT_EQ(moved(Gather::on_use, Reduce::accumulated), 9u);
}

}  // namespace
}  // namespace sluice
