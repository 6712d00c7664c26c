// Copies of a weight that stages share: their gradients are all-reduced before both stages step. By hand.
#include <gtest/gtest.h>

#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

// Stages 0 and 2 of three hold copies.
Program with_copies_at_both_ends(bool clip_norm = false) {
  StageGraph graph = chain(3);
  graph.copies = {{StageId(0), StageId(2)}};
  return lower(parse_schedule("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\nrank 2: 2F0 2B0\n"), graph, one_stage_per_rank(3), {},
               {}, {.clip_norm = clip_norm});
}

std::vector<std::string> end_of(const std::vector<Instruction>& rank, std::size_t count) {
  std::vector<std::string> texts;
  for (std::size_t k = rank.size() - count; k < rank.size(); ++k) texts.push_back(to_text(rank[k]));
  return texts;
}

TEST(CopiesTest, TheirRanksReduceBeforeTheNormAndTheSteps) {
  const Program program = with_copies_at_both_ends(true);
  EXPECT_EQ(program.step_groups, (std::vector<std::vector<Rank>>{{Rank(0), Rank(2)}, {Rank(0), Rank(1), Rank(2)}}));
  EXPECT_EQ(end_of(program.ranks[0], 3), (std::vector<std::string>{"reduce_copies 0", "reduce_norm", "step 0"}));
  EXPECT_EQ(end_of(program.ranks[1], 2), (std::vector<std::string>{"reduce_norm", "step 1"}));
  EXPECT_EQ(end_of(program.ranks[2], 3), (std::vector<std::string>{"reduce_copies 2", "reduce_norm", "step 2"}));
  EXPECT_TRUE(check(program).empty());
}

TEST(CopiesTest, TheirAllReduceTakesItsBytesOverTheLinksOfTheirRanks) {
  // Messages take a latency of 0.25: F at 0, 1.25 and 2.5, B (2 each) at 3.5, 5.75 and 8 to 10. Then 50 bytes there and
  // 50 back at 100 bytes a second over two links.
  Costs costs = uniform_costs(3, 1, 1, 1);
  costs.copies = {Bytes(100)};
  const Cluster cluster = cluster_of(3, {link(0, 1, 100, 0.25), link(1, 2, 100, 0.25)});
  EXPECT_DOUBLE_EQ(simulate(with_copies_at_both_ends(), costs, cluster, identity_devices(3), {}).update_end[0],
                   10 + 2 * (0.5 + 0.5));
}

TEST(CopiesTest, AStageThatUsesAWeightOfItsRankKeepsItsOwnerFromStepping) {
  // Stages 0 and 3 of a V on rank 0; 3 uses a weight of 0, whose last gradient comes before that of 3.
  StageGraph graph = chain(4);
  graph.loans = {{StageId(3), StageId(0)}};
  const Program program = lower(parse_schedule("rank 0: 0F0 3F0 3I0 0I0 0W0 3W0\n"
                                               "rank 1: 1F0 2F0 2B0 1B0\n"),
                                graph, {{{Rank(0)}, {Rank(1)}, {Rank(1)}, {Rank(0)}}}, {});
  EXPECT_EQ(end_of(program.ranks[0], 4), (std::vector<std::string>{"0W0", "3W0", "step 0", "step 3"}));
  EXPECT_TRUE(program.step_groups.empty());
}

}  // namespace
}  // namespace sluice
