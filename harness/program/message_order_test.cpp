#include "harness/program/message_order.h"

#include <gtest/gtest.h>

#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/program/program_test_support.h"

namespace sluice {
namespace {

// Rank 0 sends its second activation while rank 1 sends the first gradient: neither comes to its receive.
TEST(MessageOrderTest, OneForwardOneBackwardAsLoweredNeedsBufferedSends) {
  const Program program = lower(example_1f1b(2, 2), chain(2), one_stage_per_rank(2), {});
  EXPECT_TRUE(check_messages(program, SendEnd::buffered).empty());
  expect_only(check_messages(program, SendEnd::rendezvous), Violation::Kind::deadlock,
              "ranks wait for one another in a cycle: rank 0 at send_activation 0->1 1 for receive_activation 0->1 1 "
              "of rank 1, rank 1 at send_gradient 1->0 0 for receive_gradient 1->0 0 of rank 0");
}

TEST(MessageOrderTest, GPipeAsLoweredDoesNot) {
  const Program program = lower(example_gpipe(3, 4), chain(3), one_stage_per_rank(3), {});
  EXPECT_TRUE(check_messages(program, SendEnd::rendezvous).empty());
}

// Steps: 0F0 and 1F0; 0F1 and 1B0; 0B0 and 1F1; 1B1; 0B1. A message stands where its sender makes it, so that rank 1
// takes the second activation before 1B0.
TEST(MessageOrderTest, AMessageStandsOnBothRanksWhereItIsMade) {
  const Program made = in_rendezvous_order(lower(example_1f1b(2, 2), chain(2), one_stage_per_rank(2), {}));
  EXPECT_EQ(text_of(made.ranks[0]),
            "0F0\nsend_activation 0->1 0\n0F1\nsend_activation 0->1 1\nreceive_gradient 1->0 0\n0B0\n"
            "receive_gradient 1->0 1\n0B1\nstep 0\n");
  EXPECT_EQ(text_of(made.ranks[1]),
            "receive_activation 0->1 0\n1F0\nreceive_activation 0->1 1\n1B0\nsend_gradient 1->0 0\n1F1\n1B1\n"
            "send_gradient 1->0 1\nstep 1\n");
  EXPECT_TRUE(check(made).empty());
  EXPECT_TRUE(check_messages(made, SendEnd::rendezvous).empty());
}

// Both ranks of stage 0 reduce after each of their backwards, so that messages and collectives wait for one another.
TEST(MessageOrderTest, CollectivesBetweenTheOpsKeepTheirPlace) {
  const Program program =
      lower(parse_schedule("rank 0: 0F0 0B0 0F2 0B2\nrank 1: 0F1 0B1 0F3 0B3\n"
                           "rank 2: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3\n"),
            chain(2), {{{Rank(0), Rank(1)}, {Rank(2)}}},
            {.update = WeightRule::Update::every_backward, .backward = WeightRule::Backward::same_as_forward});
  ASSERT_TRUE(check(program).empty());
  const Program made = in_rendezvous_order(program);
  EXPECT_TRUE(check(made).empty());
  EXPECT_TRUE(check_messages(made, SendEnd::rendezvous).empty());
  for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(made.ranks[r].size(), program.ranks[r].size());
}

TEST(MessageOrderTest, RandomOrdersOfRandomGraphsEnd) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const ExampleProblem p = random_problem(seed, seed % 2 == 0);
    const Program made = in_rendezvous_order(lower(p.schedule, p.graph, p.placement, {}));
    EXPECT_TRUE(check(made).empty()) << seed;
    EXPECT_TRUE(check_messages(made, SendEnd::rendezvous).empty()) << seed;
  }
}

}  // namespace
}  // namespace sluice
