// Stages whose ops take several micro-batches at once (StageGraph::microbatches_per_op): dependencies,
// messages and checks follow.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>

#include "harness/base/expect_error.h"
#include "harness/pipeline/plan.h"
#include "harness/program/check_program.h"
#include "harness/program/check_schedule.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/program/program.h"
#include "harness/program/program_test_support.h"

namespace sluice {
namespace {

StageGraph grouped_chain(std::vector<int> microbatches_per_op) {
  StageGraph graph = chain(static_cast<int>(microbatches_per_op.size()));
  graph.microbatches_per_op = std::move(microbatches_per_op);
  return graph;
}

std::string first_violation(const std::string& schedule, int microbatches, const StageGraph& graph) {
  Schedule s = parse_schedule(schedule);
  s.microbatches = microbatches;
  const auto found = check(s, graph, one_stage_per_rank(static_cast<int>(graph.size())));
  return found.empty() ? "" : found.front().text;
}

TEST(GroupingTest, OpsAndMessagesOfNeighbours) {
  const StageGraph graph = grouped_chain({1, 4, 2});
  const auto range = [](MicroRange r) { return std::pair(r.first, r.last); };
  EXPECT_EQ(range(neighbour_ops(graph, StageId(1), Micro(1), StageId(0))), std::pair(4, 8));
  EXPECT_EQ(range(neighbour_ops(graph, StageId(0), Micro(6), StageId(1))), std::pair(1, 2));
  EXPECT_EQ(range(neighbour_ops(graph, StageId(1), Micro(1), StageId(2))), std::pair(2, 4));
  EXPECT_EQ(microbatches_per_message(graph, StageId(0), StageId(1)), 1);
  EXPECT_EQ(microbatches_per_message(graph, StageId(1), StageId(2)), 2);
  EXPECT_EQ(range(messages_of(graph, StageId(1), Micro(1), StageId(2))), std::pair(2, 4));
  EXPECT_EQ(range(messages_of(graph, StageId(2), Micro(3), StageId(1))), std::pair(3, 4));
  EXPECT_EQ(op_of_message(graph, StageId(1), Micro(3), StageId(2)), Micro(1));
}

TEST(GroupingTest, LoweringReceivesAllThatAnOpTakesAndSendsAllThatItMakes) {
  const Schedule schedule = parse_schedule(
      "rank 0: 0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3\n"
      "rank 1: 1F0 1B0 1F1 1B1\n");
  const Program program = lower(schedule, grouped_chain({1, 2}), one_stage_per_rank(2), WeightRule{});
  EXPECT_EQ(text_of(program.ranks[1]),
            "receive_activation 0->1 0\n"
            "receive_activation 0->1 1\n"
            "1F0\n"
            "1B0\n"
            "send_gradient 1->0 0\n"
            "send_gradient 1->0 1\n"
            "receive_activation 0->1 2\n"
            "receive_activation 0->1 3\n"
            "1F1\n"
            "1B1\n"
            "send_gradient 1->0 2\n"
            "send_gradient 1->0 3\n"
            "step 1\n");
  EXPECT_TRUE(check(program).empty());
}

TEST(GroupingTest, ReplicasTakeTheirOpsInTurnAndMessagesGoToTheRightOne) {
  // Stage 0 takes two micro-batches at once; the replicas of stage 1 take one each.
  const Schedule schedule = parse_schedule(
      "rank 0: 0F0 0F1 0B0 0B1\n"
      "rank 1: 1F0 1B0 1F2 1B2\n"
      "rank 2: 1F1 1B1 1F3 1B3\n");
  const Placement placement{.stages = {{Rank(0)}, {Rank(1), Rank(2)}}};
  Schedule s = schedule;
  s.microbatches = 4;
  const Program program = lower(s, grouped_chain({2, 1}), placement, WeightRule{});
  EXPECT_TRUE(check(program).empty());
  EXPECT_EQ(text_of(program.ranks[2]),
            "receive_activation 0->1 1\n"
            "1F1\n"
            "1B1\n"
            "send_gradient 1->0 1\n"
            "receive_activation 0->1 3\n"
            "1F3\n"
            "1B3\n"
            "send_gradient 1->0 3\n"
            "reduce 1\n"
            "step 1\n");
}

TEST(GroupingTest, WhatDoesNotFitIsAViolation) {
  const StageGraph graph = grouped_chain({1, 2});
  EXPECT_EQ(first_violation("rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0\n", 2, graph), "");
  EXPECT_EQ(first_violation("rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1B1\n", 2, graph),
            "rank 1: 1F1 names a stage or micro-batch that does not exist");
  EXPECT_EQ(first_violation("rank 0: 0F0 0B0 0F1 0B1\nrank 1: 1F0 1B0\n", 2, graph),
            "ranks wait for one another in a cycle: rank 0 at 0B0 for 1B0 of rank 1, rank 1 at 1F0 for 0F1 of rank 0");
  EXPECT_EQ(first_violation("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n", 3, graph),
            "stage 1 takes 2 micro-batches at once, which 3 micro-batches do not allow");
}

TEST(GroupingTest, SystemsThatUpdateAfterEveryBackwardHaveNone) {
  Schedule s = parse_schedule("rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0\n");
  EXPECT_EQ(error_of([&] {
              lower(s, grouped_chain({1, 2}), one_stage_per_rank(2), {.update = WeightRule::Update::every_backward});
            }),
            "plan: a stage takes several micro-batches at once, and the system updates after every "
            "backward; give every stage one");
}

// Ops of a random DAG of stages with random numbers of micro-batches per op and replicas, in a random order that the
// dependencies allow.
RC_GTEST_PROP(GroupingTest, WhatChecksLowersToAProgramThatChecks, ()) {
  const int stages = *rc::gen::inRange(1, 6), microbatches = 8;
  std::mt19937 random(*rc::gen::arbitrary<unsigned>());
  const auto upto = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  std::vector<std::pair<StageId, StageId>> edges;
  for (int a = 0; a < stages; ++a)
    for (int b = a + 1; b < stages; ++b)
      if (upto(1) == 0) edges.push_back({StageId(a), StageId(b)});
  StageGraph graph = stage_graph(stages, edges, "random");
  Placement placement;
  int ranks = 0;
  std::vector<Op> left;
  for (int s = 0; s < stages; ++s) {
    graph.microbatches_per_op.push_back(1 << upto(2));
    auto& home = placement.stages.emplace_back();
    for (int replicas = 1 + upto(1); replicas > 0; --replicas) home.emplace_back(ranks++);
    for (int m = 0; m < microbatches / graph.microbatches_per_op.back(); ++m) {
      left.push_back(forward_op(s, m));
      left.push_back(backward_op(s, m));
    }
  }
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(ranks)),
                    .microbatches = microbatches};
  const auto done = [&](OpKind kind, StageId stage, Micro m) {
    return std::ranges::find(left, Op{kind, stage, m}) == left.end();
  };
  const auto ready = [&](const Op& op) {
    const bool forward = op.kind == OpKind::forward;
    const auto& sources = forward ? graph.predecessors[op.stage.index()] : graph.successors[op.stage.index()];
    return (forward || done(OpKind::forward, op.stage, op.micro)) && std::ranges::all_of(sources, [&](StageId s) {
             const auto [first, last] = neighbour_ops(graph, op.stage, op.micro, s);
             for (Micro m(first); m.value < last; ++m.value)
               if (!done(op.kind, s, m)) return false;
             return true;
           });
  };
  while (!left.empty()) {
    std::ranges::shuffle(left, random);
    const auto next = std::ranges::find_if(left, ready);
    RC_ASSERT(next != left.end());
    schedule.ranks[placement.rank_of(next->stage, next->micro).index()].push_back(*next);
    left.erase(next);
  }
  const auto found = check(schedule, graph, placement);
  RC_ASSERT(found.empty());
  const auto wrong = check(lower(schedule, graph, placement, WeightRule{}));
  RC_ASSERT(wrong.empty());
}

TEST(GroupingTest, APlansStagesCostWhatTheyTakeAtOnce) {
  CostGraph costs{.model = "m", .source = "test", .device = "d", .micro_batch = 2, .layers = {}};
  for (int i = 0; i < 2; ++i)
    costs.layers.push_back(
        {"layer" + std::to_string(i), {i - 1}, Seconds(1), Seconds(2), Seconds(3), Seconds(4), Bytes(5), Bytes(6)});
  Plan plan;
  plan.stages = {{.layers = {0}, .devices = {DeviceId(0)}},
                 {.layers = {1}, .devices = {DeviceId(1)}, .microbatches_per_op = 4}};
  const Cluster cluster{.name = "c", .source = "", .devices = std::vector<Device>(2), .links = {}};
  EXPECT_EQ(stage_graph(plan, costs).microbatches_per_op, (std::vector{1, 4}));
  // Not measured: in proportion. The update does not depend on the micro-batch.
  EXPECT_EQ(stage_costs(plan, costs, cluster)[1].forward, Seconds(4));
  EXPECT_EQ(stage_costs(plan, costs, cluster)[1].update, Seconds(4));
  CostGraph larger = costs;
  larger.micro_batch = 8;
  larger.layers[1].forward = Seconds(2.5);
  costs.larger = {larger};
  EXPECT_EQ(stage_costs(plan, costs, cluster)[0].forward, Seconds(1));
  EXPECT_EQ(stage_costs(plan, costs, cluster)[1].forward, Seconds(2.5));
}

TEST(GroupingTest, ImposedEdgesOrderStagesThatExchangeNothing) {
  CostGraph costs{.model = "m", .source = "test", .device = "d", .micro_batch = 1, .layers = {}};
  for (int i = 0; i < 2; ++i) costs.layers.push_back({.name = "layer", .inputs = {-1 - i}});
  Plan plan;
  plan.stages = {{{0}, {DeviceId(0)}}, {{1}, {DeviceId(1)}}};
  EXPECT_TRUE(stage_graph(plan, costs).successors[0].empty());
  plan.imposed_edges = {{StageId(0), StageId(1)}};
  EXPECT_EQ(stage_graph(plan, costs).successors[0], std::vector{StageId(1)});
  EXPECT_EQ(edge_bytes(plan, costs, StageId(0), StageId(1)), Bytes(0));
}

}  // namespace
}  // namespace sluice
