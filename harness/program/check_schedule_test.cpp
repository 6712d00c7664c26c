#include "harness/program/check_schedule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "harness/program/example_schedules.h"
#include "harness/program/program_test_support.h"

namespace sluice {
namespace {

using Kind = Violation::Kind;

// Violations of a schedule on a chain, one stage a rank.
std::vector<Violation> violations(const std::string& text, int stages, int microbatches) {
  Schedule schedule = parse_schedule(text);
  schedule.microbatches = microbatches;
  return check(schedule, chain(stages), one_stage_per_rank(stages));
}

TEST(CheckScheduleTest, ValidSchedulesHaveNoViolations) {
  for (int p = 1; p <= 5; ++p)
    for (int m = 1; m <= 7; ++m) {
      EXPECT_TRUE(check(example_1f1b(p, m), chain(p), one_stage_per_rank(p)).empty());
      EXPECT_TRUE(check(example_gpipe(p, m), chain(p), one_stage_per_rank(p)).empty());
    }
}

TEST(CheckScheduleTest, MissingOpsAreNamed) {
  expect_only(violations("rank 0: 0F0 0B0 0F1\n", 1, 2), Kind::missing_op, "0B1 is run by no rank");
  expect_only(violations("rank 0: 0F0 0B0 0B1\n", 1, 2), Kind::missing_op, "0F1 is run by no rank");
  expect_only(violations("rank 0: 0F0 0I0\n", 1, 1), Kind::missing_op, "0W0 is run by no rank");
  expect_only(violations("rank 0: 0F0 0W0\n", 1, 1), Kind::missing_op, "0I0 is run by no rank");
}

TEST(CheckScheduleTest, OfAMillionMissingOpsAThousandAreNamed) {
  EXPECT_LE(violations("rank 0: 0F999999 0B999999\n", 1, 1'000'000).size(), 1002u);
}

TEST(CheckScheduleTest, DuplicateOpsAreNamed) {
  expect_only(violations("rank 0: 0F0 0F0 0B0\n", 1, 1), Kind::duplicate_op, "rank 0: 0F0 is run twice");
  expect_only(violations("rank 0: 0F0 0B0 0I0 0W0\n", 1, 1), Kind::duplicate_op,
              "0B0 is run both whole and split into I and W");
}

TEST(CheckScheduleTest, OpsOnAWrongRankAreNamed) {
  expect_only(violations("rank 0: 0F0 1F0 0B0\nrank 1: 1B0\n", 2, 1), Kind::wrong_rank,
              "rank 0: 1F0 belongs to rank 1");
  expect_only(violations("rank 0: 0F0 0B0 7F0\n", 1, 1), Kind::wrong_rank,
              "rank 0: 7F0 names a stage or micro-batch that does not exist");
  expect_only(violations("rank 0: 0F0 0B0 0F1\n", 1, 1), Kind::wrong_rank,
              "rank 0: 0F1 names a stage or micro-batch that does not exist");
}

// Of chunks: forwards in the order of a sequence, backwards the other way, on every stage.
TEST(CheckScheduleTest, ChunksOutOfOrderAreNamed) {
  const auto faults = [](const std::string& text, int stages) {
    return check(parse_schedule(text), chain(stages), one_stage_per_rank(stages));
  };
  EXPECT_TRUE(faults("rank 0: 0F0.0 0F0.1 0F1.0 0B0.1 0F1.1 0B0.0 0B1.1 0B1.0\n", 1).empty());
  EXPECT_TRUE(faults("rank 0: 0F0.0 0F0.1 0I0.1 0I0.0 0W0.0 0W0.1\n", 1).empty());
  expect_only(faults("rank 0: 0F0.1 0F0.0 0B0.1 0B0.0\n", 1), Kind::wrong_order,
              "rank 0: 0F0.1 comes before 0F0.0, which it needs");
  expect_only(faults("rank 0: 0F0.0 0F0.1 0B0.0 0B0.1\n", 1), Kind::wrong_order,
              "rank 0: 0B0.0 comes before 0B0.1, which it needs");
  expect_only(faults("rank 0: 0F0.0 0B0.0 0F0.1 0B0.1\n", 1), Kind::wrong_order,
              "rank 0: 0B0.0 comes before 0B0.1, which it needs");
  expect_only(faults("rank 0: 0F0.0 0F0.1 0I0.0 0W0.0 0I0.1 0W0.1\n", 1), Kind::wrong_order,
              "rank 0: 0I0.0 comes before 0I0.1, which it needs");
  expect_only(faults("rank 0: 0F0.0 0F0.1 0B0.1 0B0.0 0F1.0 0B1.1 0B1.0\n", 1), Kind::missing_op,
              "0F1.1 is run by no rank");
  // A rank that takes the chunks of its backward in another order than the rank after it: both wait.
  EXPECT_FALSE(faults("rank 0: 0F0.0 0F0.1 0F1.0 0B0.1 0B0.0 0F1.1 0B1.1 0B1.0\n"
                      "rank 1: 1F0.0 1F0.1 1F1.0 1F1.1 1B0.1 1B0.0 1B1.1 1B1.0\n",
                      2)
                   .empty());
}

TEST(CheckScheduleTest, ChunksOfOneSequenceAreOnOneRank) {
  const Schedule schedule = parse_schedule("rank 0: 0F0.0 0B0.0\nrank 1: 0F0.1 0B0.1\n");
  expect_only(check(schedule, chain(1), {{{Rank(0), Rank(1)}}}), Kind::wrong_rank,
              "stage 0: chunk 0.1 is on rank 1, the first of its sequence on rank 0");
}

// A chunk's op, whichever it is, put in another place of its rank is either another valid order or found out.
TEST(CheckScheduleTest, EveryChunkPutBeforeItsSequenceIsFound) {
  const std::string text =
      "rank 0: 0F0.0 0F0.1 0F0.2 0F1.0 0B0.2 0F1.1 0B0.1 0F1.2 0B0.0 0B1.2 0B1.1 0B1.0\n"
      "rank 1: 1F0.0 1F0.1 1F0.2 1B0.2 1F1.0 1B0.1 1F1.1 1B0.0 1F1.2 1B1.2 1B1.1 1B1.0\n";
  const Schedule good = parse_schedule(text);
  ASSERT_TRUE(check(good, chain(2), one_stage_per_rank(2)).empty());
  int found = 0;
  for (std::size_t r = 0; r < 2; ++r)
    for (std::size_t a = 0; a < good.ranks[r].size(); ++a)
      for (std::size_t b = a + 1; b < good.ranks[r].size(); ++b) {
        const Op first = good.ranks[r][a], second = good.ranks[r][b];
        if (first.kind != second.kind || first.micro.value / 3 != second.micro.value / 3) continue;
        Schedule bad = good;
        std::swap(bad.ranks[r][a], bad.ranks[r][b]);
        EXPECT_FALSE(check(bad, chain(2), one_stage_per_rank(2)).empty()) << to_text(bad);
        ++found;
      }
  EXPECT_EQ(found, 2 * 4 * 3);
}

TEST(CheckScheduleTest, PlacementsThatDoNotFitAreNamed) {
  const Schedule one = parse_schedule("rank 0: 0F0 0B0\n");
  expect_only(check(one, chain(1), {{{Rank(1)}}}), Kind::wrong_rank, "the placement has 2 ranks, the schedule 1");
  expect_only(check(one, chain(2), {{{Rank(0)}}}), Kind::wrong_rank, "the placement has 1 stages, the stage graph 2");
  expect_only(check(one, chain(1), {{{}}}), Kind::wrong_rank, "stage 0 has no rank");
  expect_only(check(one, chain(1), {{{Rank(0), Rank(0)}}}), Kind::wrong_rank, "stage 0 is on one rank twice");
  const Schedule two = parse_schedule("rank 0: 0F0 0B0\nrank 1:\n");
  expect_only(check(two, chain(1), {{{Rank(0), Rank(1)}}}), Kind::missing_op,
              "stage 0 has 2 replicas for 1 micro-batches: one of them would have no gradient to "
              "reduce");
}

TEST(CheckScheduleTest, WrongOrderOnOneRankIsNamed) {
  expect_only(violations("rank 0: 0B0 0F0\n", 1, 1), Kind::wrong_order, "rank 0: 0B0 comes before 0F0, which it needs");
  expect_only(violations("rank 0: 0F0 0W0 0I0\n", 1, 1), Kind::wrong_order,
              "rank 0: 0W0 comes before 0I0, which it needs");
}

TEST(CheckScheduleTest, DeadlockBetweenTwoRanksNamesTheBlockedOps) {
  // Rank 0 wants the gradient of micro-batch 0 before it sends the activation that rank 1 wants.
  const auto found = violations(
      "rank 0: 0F0 0B0 0F1 0B1\n"
      "rank 1: 1F1 1B1 1F0 1B0\n",
      2, 2);
  expect_only(
      found, Kind::deadlock,
      "ranks wait for one another in a cycle: rank 0 at 0B0 for 1B0 of rank 1, rank 1 at 1F1 for 0F1 of rank 0");
}

TEST(CheckScheduleTest, DeadlockOfASplitBackwardNamesTheInputGradient) {
  const auto found = violations(
      "rank 0: 0F0 0I0 0W0 0F1 0I1 0W1\n"
      "rank 1: 1F1 1I1 1W1 1F0 1I0 1W0\n",
      2, 2);
  expect_only(
      found, Kind::deadlock,
      "ranks wait for one another in a cycle: rank 0 at 0I0 for 1I0 of rank 1, rank 1 at 1F1 for 0F1 of rank 0");
}

TEST(CheckScheduleTest, AnOverlappedPairWaitsForTheInputsOfBoth) {
  // 0F1 is handed on only together with 0B0, which needs 1B0, which waits for 0F1.
  const auto found = violations("rank 0: 0F0 (0F1;0B0) 0B1\nrank 1: 1F0 (1F1;1B0) 1B1\n", 2, 2);
  expect_only(
      found, Kind::deadlock,
      "ranks wait for one another in a cycle: rank 0 at 0B0 for 1B0 of rank 1, rank 1 at 1F1 for 0F1 of rank 0");
  EXPECT_TRUE(violations("rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 (1F1;1B0) 1B1\n", 2, 2).empty());
}

TEST(CheckScheduleTest, PairsThatAreNoneAreNamed) {
  expect_only(violations("rank 0: (0F0;0B0)\n", 1, 1), Kind::wrong_order, "rank 0: 0B0 overlaps 0F0, which it needs");
  Schedule half = parse_schedule("rank 0: 0F0 0B0\n");
  half.ranks[0][1].overlapped = true;
  expect_only(check(half, chain(1), one_stage_per_rank(1)), Kind::wrong_order,
              "rank 0: 0B0 is half a pair: it overlaps nothing");
  Schedule three = parse_schedule("rank 0: 0F0 0F1 0B0 0B1\n");
  three.ranks[0][0].overlapped = three.ranks[0][1].overlapped = true;
  expect_only(check(three, chain(1), one_stage_per_rank(1)), Kind::wrong_order,
              "rank 0: 0F0 is half a pair: it overlaps the half of another");
}

TEST(CheckScheduleTest, ReplicasByNameMustFitTheMicroBatches) {
  Placement both{.stages = {{Rank(0), Rank(1)}}, .replica_of = {0, 0, 1}};
  EXPECT_TRUE(check(parse_schedule("rank 0: 0F0 0B0 0F1 0B1\nrank 1: 0F2 0B2\n"), chain(1), both).empty());
  expect_only(check(parse_schedule("rank 0: 0F0 0B0 0F1 0B1\nrank 1:\n"), chain(1), both), Kind::wrong_rank,
              "the placement gives 3 micro-batches to replicas, the schedule has 2");
  both.replica_of = {0, 0};
  expect_only(check(parse_schedule("rank 0: 0F0 0B0 0F1 0B1\nrank 1:\n"), chain(1), both), Kind::missing_op,
              "stage 0: replica 1 has no micro-batch, hence no gradient to reduce");
}

RC_GTEST_PROP(CheckScheduleTest, RandomValidSchedulesCheck, (unsigned seed)) {
  const ExampleProblem p = random_problem(seed, true);
  RC_ASSERT(check(p.schedule, p.graph, p.placement).empty());
}

RC_GTEST_PROP(CheckScheduleTest, LeavingOutAnyOpIsFound, (unsigned seed)) {
  ExampleProblem p = random_problem(seed, true);
  const auto rank = *rc::gen::suchThat(rc::gen::inRange<std::size_t>(0, p.schedule.ranks.size()),
                                       [&](std::size_t r) { return !p.schedule.ranks[r].empty(); });
  auto& ops = p.schedule.ranks[rank];
  ops.erase(ops.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(ops.size())));
  RC_ASSERT(!check(p.schedule, p.graph, p.placement).empty());
}

}  // namespace
}  // namespace sluice
