#include "harness/exec/nccl/communicators.h"

#include <gtest/gtest.h>

#include <numeric>

#include "harness/exec/executor_test_support.h"

namespace sluice {
namespace {

// Whether every rank gets through its list when each entry waits until all its members stand at it:
// what NCCL's host calls do.
bool all_get_through(const std::vector<Communicator>& communicators, const std::vector<std::vector<int>>& of_rank) {
  std::vector<std::size_t> at(of_rank.size(), 0);
  std::size_t left = communicators.size();
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t c = 0; c < communicators.size(); ++c) {
      const auto stands_here = [&](Rank r) {
        const auto& own = of_rank[r.index()];
        return at[r.index()] < own.size() && own[at[r.index()]] == static_cast<int>(c);
      };
      if (!std::ranges::all_of(communicators[c].members, stands_here)) continue;
      for (const Rank r : communicators[c].members) ++at[r.index()];
      --left;
      moved = true;
    }
  }
  return left == 0;
}

TEST(Communicators, TwoRanksThatSendToEachOtherHaveTwo) {
  const CommunicatorPlan plan = plan_communicators(one_f_one_b(2, 4));
  using Use = Communicator::Use;
  const std::vector<Communicator> expected{{Use::channel, 0, {Rank(0), Rank(1)}},
                                           {Use::channel, 1, {Rank(1), Rank(0)}}};
  EXPECT_EQ(plan.communicators, expected);
  EXPECT_EQ(plan.of_channel, (std::vector<int>{0, 1}));
  EXPECT_EQ(plan.of_group, (std::vector<int>{-1, -1}));
  EXPECT_EQ(plan.of_rank, (std::vector<std::vector<int>>{{0, 1}, {0, 1}}));
  EXPECT_EQ(max_streams(plan), 3u);
}

TEST(Communicators, AMiddleRankOfAChainHasFour) {
  const CommunicatorPlan plan = plan_communicators(one_f_one_b(3, 4));
  EXPECT_EQ(plan.communicators.size(), 4u);
  EXPECT_EQ(plan.of_rank[1].size(), 4u);
  EXPECT_EQ(max_streams(plan), 5u);
}

TEST(Communicators, ReplicasHaveOneInTheirOrderBehindTheChannels) {
  const CommunicatorPlan plan = plan_communicators(data_parallel(3, 6));
  ASSERT_EQ(plan.communicators.size(), 1u);
  EXPECT_EQ(plan.communicators[0].use, Communicator::Use::group);
  EXPECT_EQ(plan.communicators[0].members, (std::vector<Rank>{Rank(0), Rank(1), Rank(2)}));
  EXPECT_EQ(plan.of_group, (std::vector<int>{0}));
}

TEST(Communicators, RanksThatShareLayersHaveOneBehindTheReplicas) {
  Program program = data_parallel(4, 8);
  program.tensor = 2;
  const CommunicatorPlan plan = plan_communicators(program);
  ASSERT_EQ(plan.communicators.size(), 3u);
  EXPECT_EQ(plan.communicators[1].members, (std::vector<Rank>{Rank(0), Rank(1)}));
  EXPECT_EQ(plan.communicators[2].members, (std::vector<Rank>{Rank(2), Rank(3)}));
  EXPECT_EQ(plan.of_group, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(plan.of_group[program.tensor_group_of(Rank(3))], 2);
  EXPECT_TRUE(all_get_through(plan.communicators, plan.of_rank));
}

TEST(Communicators, EveryRankGetsThroughTheCommonOrderWhateverTheProgram) {
  std::mt19937 random(3);
  int largest = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const std::optional<Program> program = random_program(random);
    if (!program) continue;
    const CommunicatorPlan plan = plan_communicators(*program);
    EXPECT_TRUE(all_get_through(plan.communicators, plan.of_rank)) << "trial " << trial;
    largest = std::max(largest, static_cast<int>(plan.communicators.size()));
    // Each entry of a rank is one that it is a member of, and the other way round.
    std::size_t places = 0, members = 0;
    for (const auto& own : plan.of_rank) places += own.size();
    for (const Communicator& c : plan.communicators) {
      members += c.members.size();
      for (const Rank r : c.members) {
        const auto& own = plan.of_rank[r.index()];
        EXPECT_TRUE(std::ranges::is_sorted(own));
        EXPECT_EQ(std::ranges::count(own, static_cast<int>(&c - plan.communicators.data())), 1);
      }
    }
    EXPECT_EQ(places, members);
  }
  EXPECT_GT(largest, 10);
}

TEST(Communicators, RanksThatWentByTheirOwnOrderWouldWaitForOneAnother) {
  // A ring of three, each beginning with what it sends: the counterpart that the check must see.
  const std::vector<Communicator> ring{{.index = 0, .members = {Rank(0), Rank(1)}},
                                       {.index = 1, .members = {Rank(1), Rank(2)}},
                                       {.index = 2, .members = {Rank(2), Rank(0)}}};
  EXPECT_FALSE(all_get_through(ring, {{0, 2}, {1, 0}, {2, 1}}));
  EXPECT_TRUE(all_get_through(ring, {{0, 2}, {0, 1}, {1, 2}}));
}

}  // namespace
}  // namespace sluice
