// What a record shows of a trace, on small ones made by hand.
#include "harness/train/timeline.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TraceEvent forward(int micro, double start, double end) {
  return {{.opcode = Opcode::forward, .stage = StageId(0), .micro = Micro(micro)}, start, end};
}

TraceMessage activation(int micro, double start, double end) {
  return {{.opcode = Opcode::send_activation, .stage = StageId(0), .micro = Micro(micro), .peer_stage = StageId(1)},
          Rank(0),
          Rank(1),
          start,
          end,
          24};
}

TEST(RecordTimeline, ShowsMessagesFromTheirSenderToTheirReceiver) {
  Trace trace;
  trace.ranks = {{forward(0, 2, 3)}, {forward(0, 4, 5)}};
  trace.messages = {activation(0, 3, 4)};
  Record record;
  add_bubbles(record, trace);
  record.timeline = timeline_of(trace, 10);
  ASSERT_EQ(record.timeline.size(), 3u);
  const TimelineOp& message = record.timeline[2];
  EXPECT_EQ(message.op, "send_activation 0->1 0");
  EXPECT_EQ(message.rank, 0);
  EXPECT_EQ(message.to, 1);
  EXPECT_EQ(message.bytes, 24);
  EXPECT_DOUBLE_EQ(message.start, 1);  // the timeline begins with the first op
  EXPECT_DOUBLE_EQ(message.end, 2);
  EXPECT_EQ(record.timeline[0].to, std::nullopt);
  EXPECT_DOUBLE_EQ(record.observed.bubble_ratio.value(), 1 - 2.0 / 6);
}

TEST(RecordTimeline, LeavesOutMessagesAfterTheOpsThatItShowsAndThoseThatTakeNoTime) {
  Trace trace;
  trace.ranks = {{forward(0, 0, 1), forward(1, 1, 2), forward(2, 2, 3)}};
  trace.messages = {activation(0, 1, 1.5), activation(1, 2, 2.5), activation(0, 1, 1)};
  Record record;
  add_bubbles(record, trace);
  record.timeline = timeline_of(trace, 2);
  ASSERT_EQ(record.timeline.size(), 3u);
  EXPECT_EQ(record.timeline[2].op, "send_activation 0->1 0");
  EXPECT_DOUBLE_EQ(record.timeline[2].end, 1.5);
}

TEST(RecordTimeline, OfManyRanksShowsAsManyOpsAsOneOfFew) {
  constexpr std::size_t ranks = 1024, ops = 128;
  Trace trace;
  trace.ranks.resize(ranks);
  for (auto& rank : trace.ranks)
    for (std::size_t k = 0; k < ops; ++k) rank.push_back(forward(static_cast<int>(k), double(k), double(k + 1)));
  Record record;
  add_bubbles(record, trace);
  record.timeline = timeline_of(trace, 4096);
  EXPECT_EQ(record.timeline.size(), kTimelineOps);
  EXPECT_DOUBLE_EQ(record.observed.bubble_ratio.value(), 0);  // of the whole trace
}

}  // namespace
}  // namespace sluice
