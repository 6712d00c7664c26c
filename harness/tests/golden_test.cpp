// The schedules as lists and as grids, to be held against the papers' figures; and PipeDream's
// weight versions.
#include <gtest/gtest.h>
#include <sluice_build.h>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/pipeline/system.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/program/schedule_picture.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/simulate.h"
#include "harness/tests/made_schedule.h"

namespace sluice {
namespace {

Schedule schedule_of(const std::string& name, int ranks, int microbatches, const Given& given = {}) {
  return make(name, ranks, microbatches, given).schedule;
}

// The same at F = I = W = 1, drawn.
std::string drawn(const std::string& name, int ranks, int microbatches, const Given& given = {}) {
  const Made made = make(name, ranks, microbatches, given);
  const ScheduleProblem& problem = made.chain.problem;
  const Program program = lower(made.schedule, problem.graph, problem.placement, WeightRule{});
  return "\n" +
         draw_schedule(
             simulate(program, {problem.costs, {}}, latency_cluster(ranks, Seconds(0)), made.chain.devices).trace);
}

TEST(GoldenScheduleTest, GPipe) {
  EXPECT_EQ(to_text(schedule_of("gpipe", 3, 4)),
            "rank 0: 0F0 0F1 0F2 0F3 0B3 0B2 0B1 0B0\n"
            "rank 1: 1F0 1F1 1F2 1F3 1B3 1B2 1B1 1B0\n"
            "rank 2: 2F0 2F1 2F2 2F3 2B3 2B2 2B1 2B0\n");
  EXPECT_EQ(to_text(schedule_of("gpipe", 3, 2, {{"backward", "fifo"}})),
            "rank 0: 0F0 0F1 0B0 0B1\n"
            "rank 1: 1F0 1F1 1B0 1B1\n"
            "rank 2: 2F0 2F1 2B0 2B1\n");
}

TEST(GoldenScheduleTest, OneForwardOneBackward) {
  EXPECT_EQ(to_text(schedule_of("one_f_one_b", 3, 4)),
            "rank 0: 0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3\n"
            "rank 1: 1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3\n"
            "rank 2: 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3\n");
}

TEST(GoldenScheduleTest, ZeroBubble) {
  EXPECT_EQ(to_text(schedule_of("zero_bubble", 3, 4)),
            "rank 0: 0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3\n"
            "rank 1: 1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3\n"
            "rank 2: 2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3\n");
  EXPECT_EQ(to_text(schedule_of("zero_bubble", 3, 4, {{"variant", "h2"}})),
            "rank 0: 0F0 0F1 0F2 0F3 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3\n"
            "rank 1: 1F0 1F1 1F2 1I0 1F3 1I1 1I2 1W0 1I3 1W1 1W2 1W3\n"
            "rank 2: 2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2W0 2W1 2W2 2W3\n");
}

// Grids: small letters are the second of a rank's two stages, "--" is the rest of a longer op.

TEST(DrawnScheduleTest, GPipeAndOneForwardOneBackward) {
  EXPECT_EQ(drawn("gpipe", 4, 4), R"(
rank 0  F0F1F2F3..................B3--B2--B1--B0--
rank 1  ..F0F1F2F3............B3--B2--B1--B0--....
rank 2  ....F0F1F2F3......B3--B2--B1--B0--........
rank 3  ......F0F1F2F3B3--B2--B1--B0--............
)");
  EXPECT_EQ(drawn("one_f_one_b", 4, 8), R"(
rank 0  F0F1F2F3............B0--F4B1--F5B2--F6B3--F7B4--..B5--..B6--..B7--
rank 1  ..F0F1F2........B0--F3B1--F4B2--F5B3--F6B4--F7B5--..B6--..B7--....
rank 2  ....F0F1....B0--F2B1--F3B2--F4B3--F5B4--F6B5--F7B6--..B7--........
rank 3  ......F0B0--F1B1--F2B2--F3B3--F4B4--F5B5--F6B6--F7B7--............
)");
}

TEST(DrawnScheduleTest, Interleaved) {
  EXPECT_EQ(drawn("interleaved_1f1b", 2, 4), R"(
rank 0  F0F1f0f1F2..b0--F3b1--f2B0--f3B1--..b2--..b3--B2--B3--
rank 1  ..F0F1f0b0--f1b1--F2B0--F3B1--f2b2--f3b3--B2--B3--....
)");
  EXPECT_EQ(drawn("interleaved_1f1b", 2, 2), R"(
rank 0  F0F1f0f1......b0--b1--B0--B1--
rank 1  ..F0F1f0f1b0--b1--B0--B1--....
)");
  EXPECT_EQ(drawn("interleaved_1f1b", 2, 3, {{"rule", "torch"}}), R"(
rank 0  F0F1F2f0f1f2..b0--..b1--..b2--B0--B1--B2--
rank 1  ..F0F1F2f0b0--f1b1--f2b2--B0--B1--B2--....
)");
}

TEST(DrawnScheduleTest, InterleavedZeroBubble) {
  EXPECT_EQ(drawn("interleaved_1f1b", 2, 4, {{"variant", "zero_bubble"}}), R"(
rank 0  F0F1f0f1..i0w0F2i1w1F3I0W0f2I1W1f3i2w2i3w3I2W2I3W3
rank 1  ..F0F1f0i0f1i1w0F2I0w1F3I1W0f2i2W1f3i3w2I2w3I3W2W3
)");
}

// Megatron-LM#1829: groups of six on four ranks, so that the second and last has two.
TEST(GoldenScheduleTest, InterleavedInGroupsThatDoNotDivide) {
  EXPECT_EQ(to_text(schedule_of("interleaved_1f1b", 4, 8, {{"group", "6"}})),
            "rank 0: 0F0 0F1 0F2 0F3 0F4 0F5 4F0 4F1 4F2 4F3 4F4 4F5 0F6 4B0 0F7 4B1 4F6 4B2 4F7 4B3 4B4 4B5 0B0 0B1 "
            "0B2 0B3 0B4 0B5 4B6 4B7 0B6 0B7\n"
            "rank 1: 1F0 1F1 1F2 1F3 1F4 1F5 5F0 5F1 5F2 5F3 5F4 5B0 5F5 5B1 1F6 5B2 1F7 5B3 5F6 5B4 5F7 5B5 1B0 1B1 "
            "1B2 1B3 1B4 1B5 5B6 5B7 1B6 1B7\n"
            "rank 2: 2F0 2F1 2F2 2F3 2F4 2F5 6F0 6F1 6F2 6B0 6F3 6B1 6F4 6B2 6F5 6B3 2F6 6B4 2F7 6B5 6F6 2B0 6F7 2B1 "
            "2B2 2B3 2B4 2B5 6B6 6B7 2B6 2B7\n"
            "rank 3: 3F0 3F1 3F2 3F3 3F4 3F5 7F0 7B0 7F1 7B1 7F2 7B2 7F3 7B3 7F4 7B4 7F5 7B5 3F6 3B0 3F7 3B1 7F6 3B2 "
            "7F7 3B3 3B4 3B5 7B6 7B7 3B6 3B7\n");
}

TEST(GoldenScheduleTest, InterleavedInGroupsSmallerThanTheRanksIsRejectedWithItsCycle) {
  const Made made = make("interleaved_1f1b", 4, 8, {{"group", "3"}});
  const ScheduleProblem& problem = made.chain.problem;
  EXPECT_EQ(error_of([&] { lower(made.schedule, problem.graph, problem.placement, {}); }),
            "schedule: ranks wait for one another in a cycle: rank 0 at 4F7 for 3F7 of rank 3, rank 3 at 3B3 for 4B3 "
            "of rank 0");
}

TEST(DrawnScheduleTest, InterleavedInGroupsWithInputAndWeightGradientsApart) {
  EXPECT_EQ(drawn("pipe_offload", 2, 4), R"(
rank 0  F0F1f0f1..i0w0F2i1w1F3I0W0f2I1W1f3i2w2..i3w3I2W2I3W3
rank 1  ..F0F1f0i0w0f1i1w1F2I0W0F3I1W1f2i2w2f3i3w3I2W2I3W3..
)");
}

TEST(DrawnScheduleTest, BreadthFirst) {
  EXPECT_EQ(drawn("breadth_first", 2, 4), R"(
rank 0  F0F1F2F3f0f1f2f3......b0--b1--b2--b3--B0--B1--B2--B3--
rank 1  ..F0F1F2F3f0f1f2f3b0--b1--b2--b3--B0--B1--B2--B3--....
)");
  EXPECT_EQ(drawn("breadth_first", 2, 4, {{"backward", "lifo"}}), R"(
rank 0  F0F1F2F3f0f1f2f3......b3--b2--b1--b0--B3--B2--B1--B0--
rank 1  ..F0F1F2F3f0f1f2f3b3--b2--b1--b0--B3--B2--B1--B0--....
)");
}

TEST(DrawnScheduleTest, ZeroBubble) {
  EXPECT_EQ(drawn("zero_bubble", 4, 8), R"(
rank 0  F0F1F2F3......I0W0F4I1W1F5I2W2F6I3W3F7I4W4I5W5I6W6I7W7
rank 1  ..F0F1F2....I0F3I1W0F4I2W1F5I3W2F6I4W3F7I5W4I6W5I7W6W7
rank 2  ....F0F1..I0F2I1F3I2W0F4I3W1F5I4W2F6I5W3F7I6W4I7W5W6W7
rank 3  ......F0I0F1I1F2I2F3I3W0F4I4W1F5I5W2F6I6W3F7I7W4W5W6W7
)");
  EXPECT_EQ(drawn("zero_bubble", 4, 8, {{"variant", "h2"}}), R"(
rank 0  F0F1F2F3F4F5F6I0W0F7I1W1I2W2I3W3I4W4I5W5I6W6I7W7......
rank 1  ..F0F1F2F3F4I0F5I1F6I2W0F7I3W1I4W2I5W3I6W4I7W5W6W7....
rank 2  ....F0F1F2I0F3I1F4I2F5I3F6I4W0F7I5W1I6W2I7W3W4W5W6W7..
rank 3  ......F0I0F1I1F2I2F3I3F4I4F5I5F6I6W0F7I7W1W2W3W4W5W6W7
)");
  EXPECT_EQ(drawn("zero_bubble", 2, 4, {{"variant", "v"}}), R"(
rank 0  F0F1F2f0i0w0f1i1w1F3I0W0f2i2w2I1W1f3i3w3I2W2I3W3..
rank 1  ..F0f0F1f1i0w0F2I0W0f2i1w1F3I1W1f3i2w2I2i3I3W2w3W3
)");
  EXPECT_EQ(drawn("zero_bubble", 4, 8, {{"variant", "auto"}, {"memory", "8"}}), R"(
rank 0  F0F1F2F3F4F5F6I0F7I1W0I2W1I3W2I4W3I5W4I6W5I7W6W7......
rank 1  ..F0F1F2F3F4I0F5I1F6I2F7I3W0I4W1I5W2I6W3I7W4W5W6W7....
rank 2  ....F0F1F2I0F3I1F4I2F5I3F6I4F7I5W0I6W1I7W2W3W4W5W6W7..
rank 3  ......F0I0F1I1F2I2F3I3F4I4F5I5F6I6F7I7W0W1W2W3W4W5W6W7
)");
}

TEST(DrawnScheduleTest, CombinedForwardsAndBackwards) {
  EXPECT_EQ(drawn("one_f_one_b", 3, 6, {{"variant", "combined"}}), R"(
rank 0  F0F1F2F3F4........F5B0+-B1--..B2--B3--..B4--B5--
rank 1  ..F0F1F2....F3B0+-F4B1+-F5B2+-B3--..B4--B5--....
rank 2  ....F0F1B0+-F2B1+-F3B2+-F4B3+-F5B4+-B5--........
)");
  EXPECT_EQ(drawn("interleaved_1f1b", 2, 4, {{"variant", "combined"}}), R"(
rank 0  F0F1f0f1F2....F3b0+-f2b1+-f3B0+-B1--..b2--b3--B2--B3--
rank 1  ..F0F1f0f1b0+-F2b1+-F3B0+-f2B1+-f3b2+-b3--B2--B3--....
)");
  EXPECT_EQ(to_text(schedule_of("one_f_one_b", 1, 3, {{"variant", "combined"}})),
            "rank 0: 0F0 (0F1;0B0) (0F2;0B1) 0B2\n");
  // One stage a rank: the same order.
  EXPECT_EQ(schedule_of("interleaved_1f1b", 4, 8, {{"chunks", "1"}, {"variant", "combined"}}),
            schedule_of("one_f_one_b", 4, 8, {{"variant", "combined"}}));
}

TEST(DrawnScheduleTest, SynergisticTensorAndPipelineParallelism) {
  EXPECT_EQ(drawn("stp", 2, 5), R"(
time 0
rank 0  F0-F1-F2-f0-F3-f1-i0+F4-w0+...f2-b1+---B0----f3-i2+B1----f4-i3+B2----b4-
rank 1  ...F0-f0-F1-f1-F2-F3+f2-b0+---F4-B0+---f3-i1+B1----f4-i2+B2----b3----B3-
time 24
rank 0  ---B3----w2-w3-B4----
rank 1  ---b4----B4----w1-w2-
)");
  EXPECT_EQ(to_text(schedule_of("stp", 1, 2)), "rank 0: 0F0 1F0 0F1 (1F1;1B0) 0B0 1B1 0B1\n");
}

TEST(DrawnScheduleTest, VocabularyParallelism) {
  EXPECT_EQ(drawn("vocabulary_parallelism", 2, 4), R"(
rank 0  F0F1f0i0F2w0f1i1B0--w1f2i2F3B1--w2f3i3B2--......B3--w3
rank 1  ..F0f0i0F1B0--w0f1i1F2B1--w1f2i2F3B2--w2f3i3B3--w3....
)");
  EXPECT_EQ(drawn("vocabulary_parallelism", 2, 4, {{"variant", "two_barriers"}}), R"(
rank 0  F0F1f0F2i0w0f1F3i1w1f2B0--i2w2f3B1--i3w3..B2--....B3--
rank 1  ..F0f0F1i0w0f1F2B0--i1w1f2F3B1--i2w2f3B2--i3w3B3--....
)");
  EXPECT_EQ(drawn("vocabulary_parallelism", 2, 4, {{"variant", "interlaced"}}), R"(
rank 0  F0F1F2f0b0--f1b1--B0--......f2b2--F3B1--f3b3--B2--B3--
rank 1  ..F0F1f0b0--B0--f1b1--B1--F2f2b2--B2--F3f3b3--B3--....
)");
}

TEST(DrawnScheduleTest, DualPipe) {
  EXPECT_EQ(drawn("dualpipe", 4, 8), R"(
rank 0  F0F1F2f4i4w4f5F3b5+-..f6B0+-b6--..f7B1+-b7--I2W2I3W3
rank 1  ..F0f4F1f5F2b4--f6B0+-F3b5+-f7B1+-b6--B2--..i7I3w7W3
rank 2  ..F4f0F5f1F6b0--f2B4+-F7b1+-f3B5+-b2--B6--..i3I7w3W7
rank 3  F4F5F6f0i0w0f1F7b1+-..f2B4+-b2--..f3B5+-b3--I6W6I7W7
)");
  EXPECT_EQ(drawn("dualpipe", 2, 5, {{"variant", "v"}}), R"(
rank 0  F0F1F2f0i0w0f1F3b1+-..f2B0+-F4b2+-f3B1+-b3--..f4B2+-b4--I3W3I4W4
rank 1  ..F0f0F1f1F2b0--f2B0+-F3b1+-f3B1+-F4b2+-f4B2+-b3--B3--..i4I4w4W4
)");
  // A pair is one step.
  EXPECT_EQ(step_texts(schedule_of("dualpipe", 2, 5, {{"variant", "v"}}).ranks[1]),
            (std::vector<std::string>{"1F0", "2F0", "1F1", "2F1", "1F2", "2B0", "(2F2;1B0)", "(1F3;2B1)", "(2F3;1B1)",
                                      "(1F4;2B2)", "(2F4;1B2)", "2B3", "1B3", "2I4", "1I4", "2W4", "1W4"}));
}

TEST(DrawnScheduleTest, Chimera) {
  EXPECT_EQ(drawn("chimera", 4, 4), R"(
rank 0  F0F1..f2b2--f3b3--..B0--....B1--
rank 1  ..F0f2F1f3..b2--B0--b3--B1--....
rank 2  ..F2f0F3f1..b0--B2--b1--B3--....
rank 3  F2F3..f0b0--f1b1--..B2--....B3--
)");
}

// The drawing in the README of wuhouming/BitPipe (4 devices, 4 micro-batches), cell by cell; its micro-batch 1 and
// stage s1 are 0 here.
TEST(GoldenScheduleTest, BitPipe) {
  EXPECT_EQ(to_text(schedule_of("chimera", 4, 4, {{"variant", "bitpipe"}})),
            "rank 0: 0F0 0F1 3F2 4F2 3F3 4F3 7F0 7B0 7F1 7B1 4B2 3B2 4B3 3B3 0B0 0B1\n"
            "rank 1: 1F0 2F2 1F1 2F3 5F2 6F0 5F3 6F1 6B0 5B2 6B1 5B3 2B2 1B0 2B3 1B1\n"
            "rank 2: 1F2 2F0 1F3 2F1 5F0 6F2 5F1 6F3 6B2 5B0 6B3 5B1 2B0 1B2 2B1 1B3\n"
            "rank 3: 0F2 0F3 3F0 4F0 3F1 4F1 7F2 7B2 7F3 7B3 4B0 3B0 4B1 3B1 0B2 0B3\n");
  // Two units: forwards and backwards each in the order that comments of the code's bitpipe_schedule.py list.
  EXPECT_EQ(to_text(schedule_of("chimera", 4, 8, {{"variant", "bitpipe"}})),
            "rank 0: 0F0 0F1 3F2 4F2 3F3 4F3 7F0 7B0 7F1 7B1 4B2 3B2 4B3 3B3 0B0 0F4 "
            "0B1 0F5 3F6 4F6 3F7 4F7 7F4 7B4 7F5 7B5 4B6 3B6 4B7 3B7 0B4 0B5\n"
            "rank 1: 1F0 2F2 1F1 2F3 5F2 6F0 5F3 6F1 6B0 5B2 6B1 5B3 2B2 1B0 2B3 1B1 "
            "1F4 2F6 1F5 2F7 5F6 6F4 5F7 6F5 6B4 5B6 6B5 5B7 2B6 1B4 2B7 1B5\n"
            "rank 2: 1F2 2F0 1F3 2F1 5F0 6F2 5F1 6F3 6B2 5B0 6B3 5B1 2B0 1B2 2B1 1B3 "
            "1F6 2F4 1F7 2F5 5F4 6F6 5F5 6F7 6B6 5B4 6B7 5B5 2B4 1B6 2B5 1B7\n"
            "rank 3: 0F2 0F3 3F0 4F0 3F1 4F1 7F2 7B2 7F3 7B3 4B0 3B0 4B1 3B1 0B2 0F6 "
            "0B3 0F7 3F4 4F4 3F5 4F5 7F6 7B6 7F7 7B7 4B4 3B4 4B5 3B5 0B6 0B7\n");
}

TEST(DrawnScheduleTest, Hanayo) {
  EXPECT_EQ(drawn("hanayo", 4, 4), R"(
rank 0  F0F1F2F3......f0b0--f1b1--f2b2--f3b3--......B0--....B1--....B2--....B3--
rank 1  ..F0F1F2F3..f0..f1..b0--f2b1--f3b2--....B0--b3--B1--....B2--....B3--....
rank 2  ....F0F1F2f0F3f1..f2....b0--f3b1--..B0--b2--B1--b3--B2--....B3--........
rank 3  ......F0f0F1f1F2f2F3f3......b0--B0--b1--B1--b2--B2--b3--B3--............
)");
  // Two waves: four stages a rank, so cells name the stage; too long for one band.
  EXPECT_EQ(drawn("hanayo", 2, 2, {{"waves", "2"}}), R"(
time 0
rank 0  0F0-0F1-....3F0-4F0-3F1-4F1-7F0-7B0-----7F1-7B1-----....4B0-----3B0-----
rank 1  ....1F0-2F0-1F1-2F1-5F0-6F0-5F1-6F1-....6B0-----5B0-----6B1-----5B1-----
time 18
rank 0  4B1-----3B1-----0B0-----........0B1-----
rank 1  2B0-----1B0-----2B1-----1B1-----........
)");
}

TEST(DrawnScheduleTest, ZeroPP) {
  EXPECT_EQ(drawn("zeropp", 2, 3, {{"unit", "3"}}), R"(
rank 0  F0F1F2f0f1f2i0w0i1w1i2w2I0W0I1W1I2W2..
rank 1  ..F0F1F2f0i0f1i1f2i2w2I0W0I1W1I2W2w1w0
)");
  EXPECT_EQ(drawn("zeropp", 2, 3, {{"unit", "3"}, {"deferral", "released"}}), R"(
rank 0  F0F1F2f0f1f2i0..i1w1i2w2I0W0I1W1I2W2w0
rank 1  ..F0F1F2f0i0f1i1f2i2I0W0I1W1I2W2w2w1w0
)");
  EXPECT_EQ(drawn("zeropp", 2, 3, {{"unit", "3"}, {"deferral", "none"}}), R"(
rank 0  F0F1F2f0f1f2i0w0..i1w1..i2w2I0W0I1W1I2W2
rank 1  ..F0F1F2f0i0w0f1i1w1f2i2w2I0W0I1W1I2W2..
)");
}

TEST(DrawnScheduleTest, FullyShardedDataParallel) {
  EXPECT_EQ(drawn("fsdp", 2, 5), R"(
rank 0  F0B0--F1B1--F2B2--
rank 1  F3B3--F4B4--......
)");
}

TEST(GoldenScheduleTest, PipeDream) {
  EXPECT_EQ(to_text(schedule_of("pipedream", 3, 5)),
            "rank 0: 0F0 0F1 0F2 0B0 0F3 0B1 0F4 0B2 0B3 0B4\n"
            "rank 1: 1F0 1F1 1B0 1F2 1B1 1F3 1B2 1F4 1B3 1B4\n"
            "rank 2: 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 2F4 2B4\n");
}

TEST(GoldenScheduleTest, DataParallelAndSingleDevice) {
  const System& data_parallel = find_system("data_parallel", "test");
  const Placement replicas{{{Rank(0), Rank(1), Rank(2)}}};
  EXPECT_EQ(to_text(data_parallel.schedule({chain(1), replicas, 3, 5}, {})),
            "rank 0: 0F0 0B0 0F3 0B3\n"
            "rank 1: 0F1 0B1 0F4 0B4\n"
            "rank 2: 0F2 0B2\n");
  EXPECT_EQ(to_text(schedule_of("single_device", 1, 3)), "rank 0: 0F0 0B0 0F1 0B1 0F2 0B2\n");
}

// The `versions` tables of harness/tests/data/weights.json: per stage and direction [batch, version,
// .]; a case of several epochs drains the pipe between them.
TEST(PublishedVersionsTest, PipeDreamReadsTheTabulatedVersions) {
  const System& system = find_system("pipedream", "test");
  const std::map<std::string, std::string> weights = {
      {"pipedream", "stash"}, {"pipedream_vsync", "vertical_sync"}, {"naive", "naive"}};
  int tested = 0;
  const auto file = parse_json_file(SLUICE_SOURCE_DIR "/harness/tests/data/weights.json");
  for (const auto& json : file["cases"]) {
    const auto rule = weights.find(json["system"].get<std::string>());
    if (rule == weights.end()) continue;
    SCOPED_TRACE(json["name"].get<std::string>());
    const int stages = json["stages"].get<int>(), epochs = json.value("drained_epochs", 1);
    const int batches = json["batches"].get<int>() / epochs;
    const ScheduleProblem order{chain(stages), one_stage_per_rank(stages), stages, batches};
    const Options options = resolve_options(system.options, {{"weights", rule->second}}, "test");
    const Program program = lower(schedule_of("pipedream", stages, batches), chain(stages), one_stage_per_rank(stages),
                                  system.weights(order, options));
    for (int k = 0; k < stages; ++k) {
      const auto& table = json["versions"]["stage" + std::to_string(k)];
      for (const Instruction& i : program.ranks[k]) {
        if (i.opcode != Opcode::forward && i.opcode != Opcode::backward) continue;
        const auto& rows = table[i.opcode == Opcode::forward ? "F" : "B"];
        for (int e = 0; e < epochs; ++e) {
          const auto& row = rows[i.micro.value + e * batches];
          ASSERT_EQ(row[0], i.micro.value + 1 + e * batches);
          EXPECT_EQ(row[1], i.version + e * batches) << to_text(i) << " of epoch " << e;
        }
      }
    }
    ++tested;
  }
  EXPECT_EQ(tested, 48);
}

}  // namespace
}  // namespace sluice
