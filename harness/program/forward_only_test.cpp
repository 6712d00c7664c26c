// Programs of inference: forwards only, and queues of bounded length between stages.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/base/expect_error.h"
#include "harness/program/check_program.h"
#include "harness/program/check_schedule.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/program/messages.h"

namespace sluice {
namespace {

std::string first_violation(const Schedule& schedule, int ranks) {
  const auto found = check(schedule, chain(ranks), one_stage_per_rank(ranks));
  return found.empty() ? "" : found.front().text;
}

std::vector<std::string> texts(const Program& program, std::size_t rank) {
  std::vector<std::string> result;
  for (const Instruction& i : program.ranks[rank]) result.push_back(to_text(i));
  return result;
}

TEST(ForwardOnlySchedule, KeepsTheOrderOfTheForwardsAndNothingElse) {
  const Schedule schedule = forwards_of(example_1f1b(2, 3));
  EXPECT_EQ(to_text(schedule), "forward only\nrank 0: 0F0 0F1 0F2\nrank 1: 1F0 1F1 1F2\n");
  EXPECT_EQ(parse_schedule(to_text(schedule)), schedule);
  EXPECT_EQ(peaks(schedule).front().in_flight, 0);
}

TEST(ForwardOnlySchedule, TheHalvesOfAnOverlappedPairAreApart) {
  Schedule schedule = parse_schedule("rank 0: 0F0 (0F1;0B0) 0B1\n");
  EXPECT_EQ(to_text(forwards_of(schedule)), "forward only\nrank 0: 0F0 0F1\n");
}

TEST(ForwardOnlySchedule, IsCheckedForForwardsAlone) {
  Schedule schedule = forwards_of(example_1f1b(2, 2));
  EXPECT_EQ(first_violation(schedule, 2), "");
  schedule.forward_only = false;
  EXPECT_EQ(first_violation(schedule, 2), "0B0 is run by no rank");
  schedule = forwards_of(example_1f1b(2, 2));
  schedule.ranks[1].push_back(backward_op(1, 0));
  EXPECT_EQ(first_violation(schedule, 2), "1B0 is no op of inference, which has forwards only");
  schedule.ranks[1] = {forward_op(1, 0)};
  EXPECT_EQ(first_violation(schedule, 2), "1F1 is run by no rank");
}

TEST(ForwardOnlySchedule, RepeatsWithLaterMicroBatches) {
  const Schedule once = forwards_of(example_1f1b(2, 2));
  const PlacedSchedule all = repeated(once, chain(2), one_stage_per_rank(2), 3);
  EXPECT_EQ(all.schedule.microbatches, 6);
  EXPECT_EQ(to_text(all.schedule), "forward only\nrank 0: 0F0 0F1 0F2 0F3 0F4 0F5\nrank 1: 1F0 1F1 1F2 1F3 1F4 1F5\n");
  EXPECT_TRUE(check(all.schedule, chain(2), all.placement).empty());
}

TEST(ForwardOnlySchedule, AMicroBatchStaysWithItsReplicaWhenRepeated) {
  // Three micro-batches over two replicas: the first replica has two of every three.
  Schedule once = parse_schedule("forward only\nrank 0: 0F0 0F2\nrank 1: 0F1\n");
  const Placement replicas{.stages = {{Rank(0), Rank(1)}}};
  const PlacedSchedule all = repeated(once, chain(1), replicas, 2);
  EXPECT_EQ(to_text(all.schedule), "forward only\nrank 0: 0F0 0F2 0F3 0F5\nrank 1: 0F1 0F4\n");
  EXPECT_TRUE(check(all.schedule, chain(1), all.placement).empty());
}

TEST(ForwardOnlyProgram, HasNoStepsAndWaitsForCredits) {
  const Schedule schedule = forwards_of(example_1f1b(2, 4));
  const Program program = lower(schedule, chain(2), one_stage_per_rank(2), {}, {}, {.queue = 2});
  EXPECT_TRUE(program.forward_only);
  EXPECT_TRUE(check(program).empty());
  // The third forward waits until the second stage has begun the first micro-batch.
  EXPECT_EQ(texts(program, 0),
            (std::vector<std::string>{"0F0", "send_activation 0->1 0", "0F1", "send_activation 0->1 1",
                                      "receive_credit 1->0 0", "0F2", "send_activation 0->1 2", "receive_credit 1->0 1",
                                      "0F3", "send_activation 0->1 3"}));
  EXPECT_EQ(texts(program, 1),
            (std::vector<std::string>{"receive_activation 0->1 0", "send_credit 1->0 0", "1F0",
                                      "receive_activation 0->1 1", "send_credit 1->0 1", "1F1",
                                      "receive_activation 0->1 2", "1F2", "receive_activation 0->1 3", "1F3"}));
}

TEST(ForwardOnlyProgram, WithoutAQueueLimitThereAreNoCredits) {
  const Program program = lower(forwards_of(example_1f1b(2, 4)), chain(2), one_stage_per_rank(2), {});
  for (const auto& rank : program.ranks)
    EXPECT_EQ(std::ranges::count(rank, Opcode::send_credit, &Instruction::opcode), 0);
}

TEST(ForwardOnlyProgram, AnEdgeThatSkipsStagesHasRoomForThem) {
  const StageGraph graph = stage_graph(
      4, {{StageId(0), StageId(1)}, {StageId(1), StageId(2)}, {StageId(2), StageId(3)}, {StageId(0), StageId(3)}}, "");
  EXPECT_EQ(queue_room(graph, StageId(0), StageId(1), 2), 2);
  EXPECT_EQ(queue_room(graph, StageId(0), StageId(3), 2), 4);
  const Schedule schedule = forwards_of(example_gpipe(4, 9));
  for (const int queue : {1, 2, 3})
    EXPECT_TRUE(check(lower(schedule, graph, one_stage_per_rank(4), {}, {}, {.queue = queue})).empty());
}

TEST(ForwardOnlyProgram, RandomGraphsEndWithTheShortestQueue) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const ExampleProblem p = random_problem(seed, /*replicas=*/true);
    const Program program = lower(forwards_of(p.schedule), p.graph, p.placement, {}, {}, {.queue = 1});
    const auto found = check(program);
    EXPECT_TRUE(found.empty()) << "seed " << seed << ": " << found.front().text;
  }
}

TEST(ForwardOnlyProgram, RejectsWhatBelongsToTraining) {
  const Schedule schedule = forwards_of(example_1f1b(2, 2));
  WeightRule rule{.update = WeightRule::Update::every_backward};
  EXPECT_NE(
      error_of([&] { lower(schedule, chain(2), one_stage_per_rank(2), rule); }).find("inference reads the newest"),
      std::string::npos);
}

}  // namespace
}  // namespace sluice
