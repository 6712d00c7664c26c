// Moves of stashes in lowered programs, and what the checker finds in broken ones.
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

using MoveKind = StashMove::Kind;

const char* const kFillAndDrain = "rank 0: 0F0 0F1 0F2 0F3 0B3 0B2 0B1 0B0\n";

Offload moves_of_rank(std::vector<StashMove> moves) { return {{std::move(moves)}}; }
StashMove move_of(MoveKind kind, std::size_t before, int micro) { return {kind, before, StageId(0), Micro(micro)}; }

Program offloading(const Offload& offload, const WeightRule& rule = {}) {
  return lower(parse_schedule(kFillAndDrain), chain(1), one_stage_per_rank(1), rule, {}, {}, offload);
}

std::string first_fault_of(const Offload& offload) {
  const auto found = check(offloading(offload));
  return found.empty() ? "none" : found.front().text;
}

TEST(OffloadProgramTest, MovesStandBeforeTheirOps) {
  const Program program = offloading(
      moves_of_rank({move_of(MoveKind::out, 1, 0), move_of(MoveKind::free, 2, 0), move_of(MoveKind::back, 6, 0)}));
  std::string text;
  for (const Instruction& i : program.ranks[0]) text += to_text(i) + "; ";
  EXPECT_EQ(text, "0F0; stash_out 0 0; 0F1; stash_free 0 0; 0F2; 0F3; 0B3; 0B2; stash_back 0 0; 0B1; 0B0; step 0; ");
  EXPECT_TRUE(program.offloads);
  EXPECT_TRUE(check(program).empty());
}

TEST(OffloadProgramTest, WithoutMovesTheProgramIsAsEver) {
  EXPECT_FALSE(offloading({}).offloads);
  EXPECT_FALSE(offloading({{{}}}).offloads);
}

TEST(OffloadProgramTest, AllThatLiveLongEnoughMove) {
  const Offload all = offload_all(parse_schedule(kFillAndDrain));
  ASSERT_EQ(all.ranks.size(), 1u);
  // 0B3 follows 0F3 at once.
  EXPECT_EQ(all.ranks[0],
            (std::vector<StashMove>{
                move_of(MoveKind::out, 1, 0), move_of(MoveKind::out, 2, 1), move_of(MoveKind::free, 2, 0),
                move_of(MoveKind::out, 3, 2), move_of(MoveKind::free, 3, 1), move_of(MoveKind::free, 4, 2),
                move_of(MoveKind::back, 4, 2), move_of(MoveKind::back, 5, 1), move_of(MoveKind::back, 6, 0)}));
  EXPECT_TRUE(check(offloading(all)).empty());
}

TEST(OffloadProgramTest, ABackwardNeedsItsStashBack) {
  EXPECT_EQ(first_fault_of(moves_of_rank({move_of(MoveKind::out, 1, 0), move_of(MoveKind::free, 2, 0)})),
            "rank 0: 0B0: the stash is not where it must be: it is on the host only");
  EXPECT_EQ(first_fault_of(moves_of_rank({move_of(MoveKind::out, 1, 0)})),
            "rank 0: 0B0: the stash is not where it must be: it is on the device, a copy goes to the host");
}

TEST(OffloadProgramTest, AStashMovesOnceAndOnlyWhileItIsThere) {
  EXPECT_EQ(first_fault_of(moves_of_rank({move_of(MoveKind::out, 0, 0)})),
            "rank 0: stash_out 0 0: the stash is not where it must be: there is none");
  EXPECT_EQ(first_fault_of(moves_of_rank({move_of(MoveKind::out, 1, 0), move_of(MoveKind::out, 1, 0)})),
            "rank 0: stash_out 0 0: the stash is not where it must be: it is on the device, a copy goes to the host");
  EXPECT_EQ(first_fault_of(moves_of_rank({move_of(MoveKind::free, 1, 0)})),
            "rank 0: stash_free 0 0: the stash is not where it must be: it is on the device only");
  EXPECT_EQ(first_fault_of(moves_of_rank({move_of(MoveKind::back, 1, 0)})),
            "rank 0: stash_back 0 0: the stash is not where it must be: it is on the device only");
}

TEST(OffloadProgramTest, RecomputationAndSequenceChunksAreRejected) {
  const Offload offload =
      moves_of_rank({move_of(MoveKind::out, 1, 0), move_of(MoveKind::free, 2, 0), move_of(MoveKind::back, 6, 0)});
  EXPECT_THROW(offloading(offload, {.recompute = WeightRule::Recompute::newest}), InputError);
  Schedule cut = parse_schedule("rank 0: 0F0 0F1 0B1 0B0\n");
  cut.sequence_chunks = 2;
  EXPECT_THROW(lower(cut, chain(1), one_stage_per_rank(1), {}, {}, {}, offload), InputError);
}

}  // namespace
}  // namespace sluice
