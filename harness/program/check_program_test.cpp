#include "harness/program/check_program.h"

#include <gtest/gtest.h>

#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/program/program_test_support.h"

namespace sluice {
namespace {

using Kind = Violation::Kind;

Program two_ranks() { return lower(example_1f1b(2, 2), chain(2), one_stage_per_rank(2), WeightRule{}); }

std::size_t position(const Program& program, std::size_t rank, const std::string& text) {
  const auto& list = program.ranks[rank];
  for (std::size_t k = 0; k < list.size(); ++k)
    if (to_text(list[k]) == text) return k;
  ADD_FAILURE() << "no " << text;
  return 0;
}

TEST(CheckProgramTest, LoweredProgramsHaveNoViolations) { EXPECT_TRUE(check(two_ranks()).empty()); }

TEST(CheckProgramTest, AMissingReceiveIsFound) {
  Program program = two_ranks();
  program.ranks[1].erase(program.ranks[1].begin());
  expect_only(check(program), Kind::deadlock, "channel 0 -> 1: 2 sends, 1 receives");
}

TEST(CheckProgramTest, ReceivesInAnotherOrderThanTheSendsAreFound) {
  Program program = two_ranks();
  auto& list = program.ranks[1];
  std::swap(list[position(program, 1, "receive_activation 0->1 0")],
            list[position(program, 1, "receive_activation 0->1 1")]);
  expect_only(check(program), Kind::wrong_order,
              "channel 0 -> 1: message 0 is send_activation 0->1 0, but its receiver expects "
              "receive_activation 0->1 1");
}

TEST(CheckProgramTest, AVersionThatDoesNotExistYetIsFound) {
  Program program = two_ranks();
  program.ranks[0][0].version = 1;
  expect_only(check(program), Kind::missing_version,
              "rank 0: 0F0 reads weight version 1 of stage 0, whose newest is 0");
}

TEST(CheckProgramTest, AnInputThatComesTooLateIsFound) {
  Program program = two_ranks();
  auto& list = program.ranks[1];
  std::swap(list[0], list[1]);
  expect_only(check(program), Kind::wrong_order, "rank 1: 1F0 runs before its input from stage 0 is there");
}

TEST(CheckProgramTest, AForeignChannelIsFound) {
  Program program = two_ranks();
  program.ranks[0][1].channel = 1;
  const auto found = check(program);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].text, "rank 0: send_activation 0->1 0 uses a channel that is not its own");
  program.ranks[0][1].channel = 17;
  EXPECT_EQ(check(program)[0].kind, Kind::wrong_rank);
}

TEST(CheckProgramTest, RanksThatWaitForEachOtherAreFound) {
  Program program = two_ranks();
  // Rank 0 asks for the first gradient before it has sent anything.
  auto& list = program.ranks[0];
  const std::size_t receive = position(program, 0, "receive_gradient 1->0 0");
  std::rotate(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(receive),
              list.begin() + static_cast<std::ptrdiff_t>(receive) + 1);
  const auto found = check(program);
  expect_only(found, Kind::deadlock,
              "ranks wait for one another in a cycle: rank 0 at receive_gradient 1->0 0 for send_gradient 1->0 0 of "
              "rank 1, rank 1 at receive_activation 0->1 0 for send_activation 0->1 0 of rank 0");
}

TEST(CheckProgramTest, AllReducesInDifferentOrdersAreFound) {
  // Two independent stages, both on both ranks, reduced in opposite orders.
  const Schedule schedule = parse_schedule(
      "rank 0: 0F0 0B0 1F0 1B0\n"
      "rank 1: 1F1 1B1 0F1 0B1\n");
  const Placement both{{{Rank(0), Rank(1)}, {Rank(0), Rank(1)}}};
  Program program = lower(schedule, stage_graph(2, {}, "test"), both, WeightRule{});
  EXPECT_TRUE(check(program).empty());
  auto& last = program.ranks[1];
  std::rotate(last.end() - 4, last.end() - 2, last.end());
  const auto found = check(program);
  expect_only(found, Kind::deadlock,
              "ranks wait for one another in a cycle: rank 0 at reduce 0 for rank 1, rank 1 at reduce 1 for rank 0");
}

}  // namespace
}  // namespace sluice
