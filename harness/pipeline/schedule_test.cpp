#include "harness/pipeline/schedule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/program/example_schedules.h"

namespace sluice {
namespace {

TEST(ScheduleTest, ChunksOfSequencesHaveATextThatRoundTrips) {
  const std::string text = "rank 0: 0F0.0 0F0.1 (0F1.0;0B0.1) 0F1.1 0B0.0 0B1.1 0B1.0\n";
  const Schedule schedule = parse_schedule(text);
  EXPECT_EQ(schedule.sequence_chunks, 2);
  EXPECT_EQ(schedule.microbatches, 4);
  EXPECT_EQ(schedule.whole_microbatches(), 2);
  EXPECT_EQ(schedule.ranks[0][2].micro, Micro(2));
  EXPECT_EQ(to_text(schedule), text);
  EXPECT_EQ(to_text(forward_op(3, 7), 4), "3F1.3");
  EXPECT_EQ(to_text(forward_op(3, 7)), "3F7");
  // A last sequence that is cut short is one all the same, so that the checker can say what is missing.
  EXPECT_EQ(parse_schedule("rank 0: 0F0.0 0F0.1 0F1.0\n").microbatches, 4);
}

TEST(OpTest, HasATextForm) {
  EXPECT_EQ(to_text(Op{OpKind::input_gradient, StageId(5), Micro(2)}), "5I2");
  EXPECT_EQ(parse_op("12W34"), (Op{OpKind::weight_gradient, StageId(12), Micro(34)}));
  EXPECT_EQ(parse_op("0F0"), forward_op(0, 0));
  EXPECT_EQ(parse_op("3B1"), backward_op(3, 1));
}

TEST(OpTest, AnythingElseIsRejected) {
  for (const char* text : {"", "F", "5", "5F", "F2", "5X2", "0F0.1", "5F2x", "-1F0", "0F-1", "5f2", "5F 2",
                           "99999999999F0", "0F2147483647", "2000000F0"})
    EXPECT_EQ(error_of([&] { parse_op(text); }),
              "'" + std::string(text) + "' is not an op; write stage, F|B|I|W, micro-batch, like 5I2")
        << text;
}

RC_GTEST_PROP(ScheduleTest, TextRoundTrips, (unsigned seed)) {
  const Schedule schedule = random_problem(seed, true).schedule;
  RC_ASSERT(parse_schedule(to_text(schedule)) == schedule);
}

RC_GTEST_PROP(ScheduleTest, TextOfOverlappedPairsRoundTrips, (unsigned seed)) {
  Schedule schedule = random_problem(seed, true).schedule;
  for (auto& ops : schedule.ranks)
    for (std::size_t k = 0; k + 1 < ops.size(); k += 2 + seed % 3) ops[k].overlapped = true;
  RC_ASSERT(parse_schedule(to_text(schedule)) == schedule);
}

TEST(ScheduleTest, AnOverlappedPairIsOneStep) {
  const Schedule schedule = parse_schedule("rank 0: 0F0 (0F1;0B0) 0B1\n");
  EXPECT_EQ(schedule.ranks[0].size(), 4u);
  EXPECT_EQ(schedule.microbatches, 2);
  EXPECT_TRUE(schedule.ranks[0][1].overlapped);
  EXPECT_FALSE(schedule.ranks[0][2].overlapped);
  EXPECT_EQ(step_texts(schedule.ranks[0]), (std::vector<std::string>{"0F0", "(0F1;0B0)", "0B1"}));
}

TEST(ScheduleTest, RanksWithoutOpsAndBlankLinesAreRead) {
  const Schedule schedule = parse_schedule("rank 0:\n\nrank 1: 0F0  0B0\n");
  ASSERT_EQ(schedule.ranks.size(), 2u);
  EXPECT_TRUE(schedule.ranks[0].empty());
  EXPECT_EQ(schedule.ranks[1].size(), 2u);
  EXPECT_EQ(schedule.microbatches, 1);
  EXPECT_EQ(to_text(schedule), "rank 0:\nrank 1: 0F0 0B0\n");
}

TEST(StageGraphTest, ChainLinksNeighbours) {
  const StageGraph graph = chain(3);
  EXPECT_TRUE(graph.predecessors[0].empty());
  EXPECT_EQ(graph.successors[0], std::vector{StageId(1)});
  EXPECT_EQ(graph.predecessors[2], std::vector{StageId(1)});
  EXPECT_TRUE(graph.successors[2].empty());
}

TEST(StageGraphTest, NeighboursAreAscending) {
  const StageGraph graph =
      stage_graph(3, {{StageId(0), StageId(2)}, {StageId(1), StageId(2)}, {StageId(0), StageId(1)}}, "plan");
  EXPECT_EQ(graph.successors[0], (std::vector{StageId(1), StageId(2)}));
  EXPECT_EQ(graph.predecessors[2], (std::vector{StageId(0), StageId(1)}));
}

TEST(StageGraphTest, CyclesAndBadEdgesAreRejected) {
  using Edges = std::vector<std::pair<StageId, StageId>>;
  const auto rejection = [](const Edges& edges) { return error_of([&] { stage_graph(3, edges, "plan"); }); };
  EXPECT_EQ(rejection({{StageId(0), StageId(1)}, {StageId(1), StageId(2)}, {StageId(2), StageId(1)}}),
            "plan: the stages form a cycle through stage 1");
  EXPECT_EQ(rejection({{StageId(1), StageId(1)}}), "plan: the stages form a cycle through stage 1");
  EXPECT_EQ(rejection({{StageId(0), StageId(3)}}), "plan: edge 0 -> 3 names a stage that does not exist");
  EXPECT_EQ(rejection({{StageId(0), StageId(1)}, {StageId(0), StageId(1)}}), "plan: edge 0 -> 1 is given twice");
}

TEST(PlacementTest, MicroBatchesGoRoundTheReplicas) {
  const Placement placement{{{Rank(0), Rank(2)}, {Rank(1)}}};
  EXPECT_EQ(placement.rank_of(StageId(0), Micro(0)), Rank(0));
  EXPECT_EQ(placement.rank_of(StageId(0), Micro(1)), Rank(2));
  EXPECT_EQ(placement.rank_of(StageId(0), Micro(4)), Rank(0));
  EXPECT_EQ(placement.rank_of(StageId(1), Micro(3)), Rank(1));
  EXPECT_EQ(placement.rank_count(), 3);
  EXPECT_EQ(one_stage_per_rank(4).rank_of(StageId(3), Micro(9)), Rank(3));
}

TEST(PlacementTest, MicroBatchesMayBeGivenToReplicasByName) {
  // Two ways over two ranks: micro-batches 0 and 1 run down, 2 runs up.
  const Placement placement{.stages = {{Rank(0), Rank(1)}, {Rank(1), Rank(0)}}, .replica_of = {0, 0, 1}};
  EXPECT_EQ(placement.rank_of(StageId(0), Micro(1)), Rank(0));
  EXPECT_EQ(placement.rank_of(StageId(1), Micro(1)), Rank(1));
  EXPECT_EQ(placement.rank_of(StageId(0), Micro(2)), Rank(1));
  EXPECT_EQ(placement.rank_of(StageId(1), Micro(2)), Rank(0));
}

TEST(PeaksTest, CountMicroBatchesUntilEachGradient) {
  const auto peak =
      peaks(parse_schedule("rank 0: 0F0 0F1 0F2 0B0 0B1 0B2\n"  // 3 in flight
                           "rank 1: 1F0 1I0 1F1 1I1 1W0 1W1\n"  // 1 until I, 2 until W
                           "rank 2: 2F0 2B0 2F1 2B1\n"));
  EXPECT_EQ(peak[0].in_flight, 3);
  EXPECT_EQ(peak[0].until_weight_gradient, 3);
  EXPECT_EQ(peak[1].in_flight, 1);
  EXPECT_EQ(peak[1].until_weight_gradient, 2);
  EXPECT_EQ(peak[2].in_flight, 1);
}

TEST(PeaksTest, OneForwardOneBackwardHoldsPMinusR) {
  for (int p = 1; p <= 6; ++p)
    for (int m = 1; m <= 8; ++m) {
      const auto peak = peaks(example_1f1b(p, m));
      for (int r = 0; r < p; ++r) EXPECT_EQ(peak[r].in_flight, std::min(m, p - r));
    }
}

}  // namespace
}  // namespace sluice
