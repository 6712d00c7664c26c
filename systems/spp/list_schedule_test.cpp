#include "systems/spp/list_schedule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/program/check_schedule.h"
#include "harness/program/example_schedules.h"

namespace sluice {
namespace {

using BlockKind = ListBlock::Kind;
constexpr auto kReady = ListScheduleOptions::Rule::ready;

PipelineTimes uniform(int stages, double forward, double backward, double channel = 0) {
  const auto n = static_cast<std::size_t>(stages);
  return {.forward = std::vector<double>(n, forward),
          .backward = std::vector<double>(n, backward),
          .all_reduce = std::vector<double>(n, 0),
          .forward_channel = std::vector<double>(n - 1, channel),
          .backward_channel = std::vector<double>(n - 1, channel)};
}

// Small whole and half seconds, zeros among them: ties are frequent and sums exact.
PipelineTimes arbitrary_times() {
  const auto stages = *rc::gen::inRange<std::size_t>(1, 6);
  const auto list = [](std::size_t n) {
    std::vector<double> seconds;
    for (std::size_t k = 0; k < n; ++k) seconds.push_back(*rc::gen::inRange(0, 12) / 2.0);
    return seconds;
  };
  return {.forward = list(stages),
          .backward = list(stages),
          .all_reduce = list(stages),
          .forward_channel = list(stages - 1),
          .backward_channel = list(stages - 1)};
}

std::vector<std::pair<double, double>> times_of(const ListSchedule& s, BlockKind kind, int place) {
  std::map<int, std::pair<double, double>> by_micro;
  for (const ListBlock& b : s.blocks)
    if (b.kind == kind && b.place == place) by_micro[b.micro] = {b.start, b.end};
  std::vector<std::pair<double, double>> times;
  for (const auto& [micro, time] : by_micro) times.push_back(time);
  return times;
}

using Times = std::vector<std::pair<double, double>>;

// Two stages, F 2 and 2, B 4 and 4, the channel 0.5 in each direction, an all-reduce of 2 behind stage 0:
// worked out by hand.
TEST(ListScheduleTest, TwoStagesByHand) {
  const PipelineTimes times{
      .forward = {2, 2}, .backward = {4, 4}, .all_reduce = {2, 0}, .forward_channel = {0.5}, .backward_channel = {0.5}};
  const ListSchedule s = list_schedule(times, 4);
  EXPECT_EQ(times_of(s, BlockKind::forward, 0), (Times{{0, 2}, {2, 4}, {4, 6}, {6, 8}}));
  // The third transfer down waits behind the first one up: equal keys, the older first.
  EXPECT_EQ(times_of(s, BlockKind::down, 0), (Times{{2, 2.5}, {4, 4.5}, {9, 9.5}, {15, 15.5}}));
  EXPECT_EQ(times_of(s, BlockKind::forward_and_backward, 1),
            (Times{{2.5, 8.5}, {8.5, 14.5}, {14.5, 20.5}, {20.5, 26.5}}));
  EXPECT_EQ(times_of(s, BlockKind::up, 0).front(), (std::pair{8.5, 9.0}));
  EXPECT_EQ(times_of(s, BlockKind::backward, 0), (Times{{9, 13}, {15, 19}, {21, 25}, {27, 31}}));
  EXPECT_EQ(s.stage_end, (std::vector<double>{31, 26.5}));
  EXPECT_EQ(s.makespan, 33);
  EXPECT_EQ(busiest_seconds(times), 6);
  EXPECT_EQ(list_schedule_bound(times, 4), 8 * 6 + 2);
}

TEST(ListScheduleTest, ADuplexChannelsWaysDoNotWaitForEachOther) {
  const PipelineTimes times{
      .forward = {2, 2}, .backward = {4, 4}, .all_reduce = {0, 0}, .forward_channel = {0.5}, .backward_channel = {0.5}};
  const ListSchedule s = list_schedule(times, 4, {.duplex = true});
  EXPECT_EQ(times_of(s, BlockKind::down, 0), (Times{{2, 2.5}, {4, 4.5}, {6, 6.5}, {8, 8.5}}));
}

TEST(ListScheduleTest, OneStageRunsOneMicroBatchAfterTheOther) {
  const ListSchedule s = list_schedule(uniform(1, 2, 3), 4);
  EXPECT_EQ(s.makespan, 20);
  EXPECT_EQ(stage_orders(s, 4).front(),
            (std::vector<Op>{forward_op(0, 0), backward_op(0, 0), forward_op(0, 1), backward_op(0, 1), forward_op(0, 2),
                             backward_op(0, 2), forward_op(0, 3), backward_op(0, 3)}));
}

TEST(ListScheduleTest, TimesThatDoNotBelongTogetherAreADefect) {
  PipelineTimes times = uniform(2, 1, 1);
  times.forward_channel.clear();
  EXPECT_THROW(list_schedule(times, 1), std::logic_error);
  EXPECT_THROW(list_schedule(uniform(2, 1, 1), 0), std::logic_error);
}

// The list as the paper has it: all (m, j) sorted by m + j, then m; each block starts when its
// resource and its micro-batch's block before are done.
double makespan_of_the_list(const PipelineTimes& t, int microbatches, bool duplex, bool merge_last) {
  const int stages = static_cast<int>(t.forward.size());
  struct Block {
    std::string resource;
    double seconds;
    int stage_done;
  };
  std::vector<Block> blocks;
  const auto at = [](const std::vector<double>& v, int k) { return v[k]; };
  const auto stage = [](int s) { return "stage" + std::to_string(s); };
  const auto channel = [&](int s, const char* direction) {
    return "channel" + std::to_string(s) + (duplex ? direction : "");
  };
  for (int s = 0; s < stages - 1; ++s) {
    blocks.push_back({stage(s), at(t.forward, s), -1});
    blocks.push_back({channel(s, "down"), at(t.forward_channel, s), -1});
  }
  if (merge_last) {
    blocks.push_back({stage(stages - 1), at(t.forward, stages - 1) + at(t.backward, stages - 1), stages - 1});
  } else {
    blocks.push_back({stage(stages - 1), at(t.forward, stages - 1), -1});
    blocks.push_back({stage(stages - 1), at(t.backward, stages - 1), stages - 1});
  }
  for (int s = stages - 2; s >= 0; --s) {
    blocks.push_back({channel(s, "up"), at(t.backward_channel, s), -1});
    blocks.push_back({stage(s), at(t.backward, s), s});
  }
  std::vector<std::tuple<int, int, int>> list;  // m + j, m, j
  for (int m = 0; m < microbatches; ++m)
    for (int j = 0; j < static_cast<int>(blocks.size()); ++j) list.emplace_back(m + j, m, j);
  std::ranges::sort(list);
  std::map<std::string, double> free_at;
  std::map<int, double> done_at;
  double makespan = 0;
  for (const auto& [key, m, j] : list) {
    const Block& b = blocks[j];
    const double end = std::max(free_at[b.resource], done_at[m]) + b.seconds;
    free_at[b.resource] = done_at[m] = end;
    if (b.stage_done >= 0) makespan = std::max(makespan, end + at(t.all_reduce, b.stage_done));
  }
  return makespan;
}

RC_GTEST_PROP(ListScheduleTest, StrictIsTheSortedList, ()) {
  const PipelineTimes times = arbitrary_times();
  const int microbatches = *rc::gen::inRange(1, 12);
  const bool duplex = *rc::gen::arbitrary<bool>(), merge_last = *rc::gen::arbitrary<bool>();
  RC_ASSERT(list_schedule(times, microbatches, {.duplex = duplex, .merge_last = merge_last}).makespan ==
            makespan_of_the_list(times, microbatches, duplex, merge_last));
}

RC_GTEST_PROP(ListScheduleTest, StrictKeepsItsProvenBounds, ()) {
  const PipelineTimes times = arbitrary_times();
  const int microbatches = *rc::gen::inRange(1, 20);
  const double makespan = list_schedule(times, microbatches).makespan;
  RC_ASSERT(makespan <= list_schedule_bound(times, microbatches));
  RC_ASSERT(makespan >= microbatches * busiest_seconds(times));
  for (std::size_t s = 0; s < times.forward.size(); ++s)
    RC_ASSERT(makespan >= microbatches * (times.forward[s] + times.backward[s]) + times.all_reduce[s]);
}

RC_GTEST_PROP(ListScheduleTest, BothRulesKeepDependenciesAndResources, ()) {
  const PipelineTimes times = arbitrary_times();
  const int stages = static_cast<int>(times.forward.size()), microbatches = *rc::gen::inRange(1, 10);
  const ListScheduleOptions options{.rule = *rc::gen::element(ListScheduleOptions::Rule::strict, kReady),
                                    .duplex = *rc::gen::arbitrary<bool>(),
                                    .merge_last = *rc::gen::arbitrary<bool>()};
  const ListSchedule s = list_schedule(times, microbatches, options);
  const std::size_t types = static_cast<std::size_t>(4 * stages - (options.merge_last ? 3 : 2));
  RC_ASSERT(s.blocks.size() == types * static_cast<std::size_t>(microbatches));
  std::map<int, double> done_at;
  std::map<std::pair<bool, int>, double> free_at;  // (channel, place); duplex counts them apart
  std::map<int, std::size_t> passed;
  for (const ListBlock& b : s.blocks) {
    RC_ASSERT(b.start >= done_at[b.micro]);
    done_at[b.micro] = b.end;
    ++passed[b.micro];
    const bool is_channel = b.kind == BlockKind::down || b.kind == BlockKind::up;
    const int place = is_channel && options.duplex && b.kind == BlockKind::up ? 100 + b.place : b.place;
    RC_ASSERT(b.start >= free_at[std::pair(is_channel, place)]);
    free_at[std::pair(is_channel, place)] = b.end;
  }
  for (const auto& [micro, count] : passed) RC_ASSERT(count == types);
  // What it orders can run.
  const Schedule schedule{.ranks = stage_orders(s, microbatches), .microbatches = microbatches};
  RC_ASSERT(check(schedule, chain(stages), one_stage_per_rank(stages)).empty());
}

// Work-conserving: where a block starts late, its resource was busy since the block became ready;
// and nothing of a larger key was started over its head.
RC_GTEST_PROP(ListScheduleTest, ReadyNeverIdlesAndTakesTheLeastKey, ()) {
  const auto stages = *rc::gen::inRange<std::size_t>(1, 5);
  PipelineTimes times = uniform(static_cast<int>(stages), 1, 1, 1);
  for (auto* list : {&times.forward, &times.backward, &times.forward_channel, &times.backward_channel})
    for (double& seconds : *list) seconds = *rc::gen::inRange(1, 12) / 2.0;
  const int microbatches = *rc::gen::inRange(1, 10);
  const ListSchedule s = list_schedule(times, microbatches, {.rule = kReady});
  struct Seen {
    double ready, start, end;
    int key, micro;
  };
  std::map<std::pair<bool, int>, std::vector<Seen>> by_resource;
  std::map<int, std::pair<double, int>> last;  // of a micro-batch: end, position
  for (const ListBlock& b : s.blocks) {
    auto& [done, position] = last[b.micro];
    const bool is_channel = b.kind == BlockKind::down || b.kind == BlockKind::up;
    by_resource[{is_channel, b.place}].push_back({done, b.start, b.end, b.micro + position, b.micro});
    done = b.end;
    ++position;
  }
  for (const auto& [resource, blocks] : by_resource)
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      const double free = k ? blocks[k - 1].end : 0;
      RC_ASSERT(blocks[k].start == std::max(free, blocks[k].ready));
      for (std::size_t other = k + 1; other < blocks.size(); ++other)
        if (blocks[other].ready <= blocks[k].start)
          RC_ASSERT(std::pair(blocks[k].key, blocks[k].micro) < std::pair(blocks[other].key, blocks[other].micro));
    }
}

// Stage s forwards 4 (S - 1 - s) micro-batches before its first backward, then one of each: each of
// the S - 1 - s stages after it counts for two positions down and two up.
TEST(ListScheduleTest, DepthIsFourForEveryStageBehind) {
  for (int stages = 1; stages <= 5; ++stages)
    for (const bool merge_last : {true, false}) {
      const auto orders = stage_orders(list_schedule(uniform(stages, 1, 2), 40, {.merge_last = merge_last}), 40);
      const Schedule schedule{.ranks = orders, .microbatches = 40};
      for (int s = 0; s < stages; ++s) {
        const auto& ops = orders[s];
        const auto first_backward = std::ranges::find(ops, OpKind::backward, &Op::kind);
        const int depth = list_schedule_depth(stages, s, merge_last);
        EXPECT_EQ(std::max(1, depth), first_backward - ops.begin()) << stages << " " << s;
        EXPECT_EQ(std::max(1, depth), peaks(schedule)[s].in_flight);
      }
    }
}

// Five micro-batches in rounds of two: the last round has one.
TEST(ListScheduleTest, ARoundIsSeveralMicroBatchesOneAfterAnother) {
  const Schedule schedule{.ranks = stage_orders(list_schedule(uniform(2, 1, 2), 3), 5, 2), .microbatches = 5};
  EXPECT_EQ(to_text(schedule),
            "rank 0: 0F0 0F1 0F2 0F3 0F4 0B0 0B1 0B2 0B3 0B4\n"
            "rank 1: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3 1F4 1B4\n");
  const Schedule unmerged{.ranks = stage_orders(list_schedule(uniform(1, 1, 2), 2, {.merge_last = false}), 4, 2),
                          .microbatches = 4};
  EXPECT_EQ(to_text(unmerged), "rank 0: 0F0 0F1 0B0 0B1 0F2 0F3 0B2 0B3\n");
}

// At equal stages and no transfers it is as fast as 1F1B.
TEST(ListScheduleTest, EqualStagesTakeTheMakespanOfOneForwardOneBackward) {
  for (int stages = 1; stages <= 6; ++stages)
    for (int microbatches = 1; microbatches <= 30; ++microbatches)
      for (const auto rule : {ListScheduleOptions::Rule::strict, kReady})
        EXPECT_EQ(list_schedule(uniform(stages, 1, 2), microbatches, {.rule = rule}).makespan,
                  3 * (microbatches + stages - 1))
            << stages << " stages, " << microbatches << " micro-batches";
}

}  // namespace
}  // namespace sluice
