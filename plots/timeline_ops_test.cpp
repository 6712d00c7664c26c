// What is read out of timelines, by hand on small ones.
#include "plots/timeline_ops.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

Record with(std::vector<TimelineOp> ops, int ranks = 2) {
  Record record;
  record.ranks = ranks;
  record.timeline = std::move(ops);
  return record;
}

std::vector<std::string> path_of(const Record& record) {
  std::vector<std::string> names;
  for (const std::size_t k : critical_path(record)) names.push_back(record.timeline[k].op);
  return names;
}

TEST(TimelineOps, TextsAreReadAsParts) {
  EXPECT_EQ(read_parts("5I12").front().kind, "I");
  EXPECT_EQ(read_parts("5I12").front().micro, "12");
  EXPECT_EQ(read_parts("5I12").front().stage, 5);
  EXPECT_EQ(read_parts("(5F1;2B0)").size(), 2u);
  EXPECT_EQ(read_parts("(5F1;2B0)")[1].stage, 2);
  EXPECT_TRUE(moves_data(read_parts("gather 5").front()));
  EXPECT_FALSE(moves_data(read_parts("step").front()));
}

TEST(TimelineOps, TheCriticalPathGoesThroughWhatEndedLast) {
  // Two stages, two micro-batches; the message after F takes 0.5. Rank 1 is the slow one.
  const Record record = with({{0, "0F0", 0, 1},
                              {0, "0F1", 1, 2},
                              {1, "1F0", 1.5, 3.5},
                              {1, "1B0", 3.5, 5.5},
                              {1, "1F1", 5.5, 7.5},
                              {1, "1B1", 7.5, 9.5},
                              {0, "0B0", 6, 7},
                              {0, "0B1", 10, 11}});
  EXPECT_EQ(path_of(record), (std::vector<std::string>{"0F0", "1F0", "1B0", "1F1", "1B1", "0B1"}));
}

TEST(TimelineOps, ThePlansEdgesSayWhatFeedsAStage) {
  // Stage 2 joins 0 and 1, of which 1 is slower; as a chain 0 would feed 1.
  Record record = with({{0, "0F0", 0, 1}, {1, "1F0", 0, 2}, {2, "2F0", 2, 3}, {2, "step", 3, 3.5}}, 3);
  record.plan = {.edges = {{0, 2}, {1, 2}}};
  EXPECT_EQ(path_of(record), (std::vector<std::string>{"1F0", "2F0", "step"}));
}

TEST(TimelineOps, MessagesAreNoPartOfThePath) {
  // The message lasts until rank 1 begins, and the last one longer than any op.
  TimelineOp down{0, "send_activation 0->1 0", 1, 1.5}, up{1, "send_gradient 1->0 0", 5.5, 9};
  down.to = 1;
  up.to = 0;
  const Record record = with({{0, "0F0", 0, 1}, down, {1, "1F0", 1.5, 3.5}, {1, "1B0", 3.5, 5.5}, up});
  EXPECT_EQ(path_of(record), (std::vector<std::string>{"0F0", "1F0", "1B0"}));
  EXPECT_TRUE(critical_path(with({down, up})).empty());
}

TEST(TimelineOps, OpsWithoutLengthEndThePathAllTheSame) {
  const Record record = with({{0, "0F0", 0, 0}, {0, "0B0", 0, 0}, {0, "step", 0, 0}}, 1);
  EXPECT_LE(critical_path(record).size(), 3u);
  EXPECT_TRUE(critical_path(with({})).empty());
}

TEST(TimelineOps, ForwardsAreHeldUntilTheirBackward) {
  const auto held = held_over_time(with({{0, "0F0", 0, 1}, {0, "0F1", 1, 2}, {0, "0B0", 2, 4}, {0, "0B1", 4, 6}}, 1));
  ASSERT_EQ(held.size(), 1u);
  std::vector<std::pair<double, int>> points;
  for (const HeldPoint& p : held[0]) points.emplace_back(p.seconds, p.held);
  EXPECT_EQ(points, (std::vector<std::pair<double, int>>{{0, 1}, {1, 2}, {4, 1}, {6, 0}}));
}

TEST(TimelineOps, OfABackwardInTwoHalvesTheSecondReleases) {
  const auto held = held_over_time(with({{0, "0F0", 0, 1}, {0, "0I0", 1, 2}, {0, "0W0", 5, 6}}, 1));
  ASSERT_EQ(held[0].size(), 2u);
  EXPECT_EQ(held[0][0].held, 1);
  EXPECT_EQ(held[0][1].seconds, 6);
}

TEST(TimelineOps, WhatIsReleasedBeforeItWasMadeWasHeldAtTheBegin) {
  const auto held = held_over_time(with({{0, "0B7", 0, 2}, {0, "0F8", 2, 3}, {0, "0B8", 3, 5}}, 1));
  EXPECT_EQ(held[0].front().held, 1);  // at 2 one goes and one comes
  EXPECT_EQ(held[0].back().held, 0);
  EXPECT_TRUE(held_over_time(with({{0, "0F0", 0, 1}}, 1)).empty());  // inference holds nothing
}

TEST(TimelineOps, ChartsOnOneTimeAxisShowEqualWork) {
  Record step = with({{0, "0F0", 1, 2}, {0, "0B0", 4, 6}, {1, "1F0", 2, 3}, {1, "1B0", 3, 4}});
  step.system = "gpipe";
  Record first_batches =
      with({{0, "0F0", 0, 1}, {0, "0F1", 1, 2}, {0, "0B0", 5, 8}, {1, "1F0", 1, 2}, {1, "1B0", 2, 10}});
  first_batches.system = "pipedream";
  const auto spans = [](const std::vector<const Record*>& records) {
    std::vector<std::pair<double, double>> pairs;
    for (const TimeSpan& s : comparable_spans(records)) pairs.emplace_back(s.begin, s.end);
    return pairs;
  };
  using Pairs = std::vector<std::pair<double, double>>;
  EXPECT_EQ(spans({&step, &first_batches}), (Pairs{{1, 6}, {0, 5}}));  // 5 seconds each
  EXPECT_EQ(spans({&first_batches}), (Pairs{{0, 8}}));                 // rank 0 is recorded until then
  Record longer = first_batches;
  longer.timeline.push_back({0, "0B1", 8, 11});
  EXPECT_EQ(spans({&longer, &first_batches}), (Pairs{{0, 8}, {0, 8}}));
  step.timeline.push_back({0, "step", 6, 40});
  EXPECT_EQ(spans({&step, &first_batches}), (Pairs{{1, 40}, {0, 8}}));  // no more is recorded
}

}  // namespace
}  // namespace sluice
