#include "systems/graphpipe/kfkb.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sluice_build.h>

#include <random>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/pipeline/orders.h"
#include "harness/program/check_schedule.h"
#include "harness/program/example_schedules.h"
#include "systems/graphpipe/published_vectors.h"

namespace sluice {
namespace {

StageGraph graph_of(int stages, const std::vector<std::pair<int, int>>& edges) {
  std::vector<std::pair<StageId, StageId>> ids;
  for (const auto& [a, b] : edges) ids.push_back({StageId(a), StageId(b)});
  return stage_graph(stages, ids, "test");
}

TEST(InFlightTest, OneStageAndItsSuccessor) {  // TV7
  for (const auto& v : vector_named("GP-TV7")["inflight_rule_k1"])
    EXPECT_EQ(in_flight_before({v["b_s"].get<int>(), 1}, v["i_t"].get<int>(), {v["b_t"].get<int>(), 1}, 1000), v["i_s"])
        << v;
}

TEST(InFlightTest, FlexFlowsStageFiles) {  // TV5, in samples
  const auto v = vector_named("GP-TV5");
  const std::vector<StageConfig> configs(6, StageConfig{v["b"].get<int>(), 1});
  const int batch = 16 * 64;
  EXPECT_EQ(kfkb_in_flight(chain(6), configs, batch), v["spp_inflight"].get<std::vector<int>>());
  const StageGraph graph = graph_of(6, {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {0, 5}});
  EXPECT_EQ(kfkb_in_flight(graph, configs, batch), v["gpp_inflight_by_stage"].get<std::vector<int>>());
}

TEST(InFlightTest, SmallerMicroBatchesAtTheFrontHoldLess) {  // TV4, figure 5 of the paper
  const auto v = vector_named("GP-TV4");
  EXPECT_EQ(kfkb_in_flight(chain(3), std::vector<StageConfig>{{4, 1}, {4, 1}, {4, 1}}, 16),
            v["uniform_b4"]["inflight"].get<std::vector<int>>());
  EXPECT_EQ(kfkb_in_flight(chain(3), std::vector<StageConfig>{{1, 1}, {2, 1}, {4, 1}}, 16),
            v["per_stage_b_1_2_4"]["inflight"].get<std::vector<int>>());
}

TEST(InFlightTest, NeverMoreThanABatch) {
  EXPECT_EQ(kfkb_in_flight(chain(4), std::vector<StageConfig>(4), 2), (std::vector{2, 2, 2, 1}));
  EXPECT_EQ(in_flight_of_sink({4, 2}, 4), 4);
}

// As long as the stages on the longest path to an end, where all micro-batches are equal.
RC_GTEST_PROP(InFlightTest, IsTheDepthAndNeverMoreThanInASequence, ()) {
  const int n = *rc::gen::inRange(1, 9), b = *rc::gen::inRange(1, 5);
  std::vector<std::pair<int, int>> edges;
  for (int a = 0; a < n; ++a)
    for (int c = a + 1; c < n; ++c)
      if (*rc::gen::inRange(0, 3) == 0) edges.push_back({a, c});
  const StageGraph graph = graph_of(n, edges);
  const std::vector<StageConfig> configs(static_cast<std::size_t>(n), StageConfig{b, 1});
  const std::vector<int> in_flight = kfkb_in_flight(graph, configs, 100 * b);
  const std::vector<int> sequence = kfkb_in_flight(chain(n), configs, 100 * b);
  for (int s = n; s-- > 0;) {
    int depth = 1;
    for (const StageId t : graph.successors[s]) depth = std::max(depth, in_flight[t.index()] / b + 1);
    RC_ASSERT(in_flight[s] == b * depth);
    RC_ASSERT(in_flight[s] <= sequence[s]);
  }
}

std::string text_of(const std::vector<Op>& ops) {
  std::string text;
  for (const Op& op : ops) text += (text.empty() ? "" : " ") + to_text(op).substr(1);
  return text;
}

TEST(KfkbOrderTest, OneForwardOneBackwardByDepth) {
  const StageGraph graph = graph_of(4, {{0, 3}, {1, 3}, {2, 3}});
  const auto orders = kfkb_orders(graph, one_stage_per_rank(4), {}, 3);
  for (const std::size_t s : {0, 1, 2}) EXPECT_EQ(text_of(orders[s]), "F0 F1 B0 F2 B1 B2");
  EXPECT_EQ(text_of(orders[3]), "F0 B0 F1 B1 F2 B2");
}

TEST(KfkbOrderTest, KForwardsKBackwards) {
  const std::vector<int> ks{2, 2};
  const auto orders = kfkb_orders(chain(2), one_stage_per_rank(2), ks, 6);
  EXPECT_EQ(text_of(orders[1]), "F0 F1 B0 B1 F2 F3 B2 B3 F4 F5 B4 B5");
  EXPECT_EQ(text_of(orders[0]), "F0 F1 F2 F3 B0 B1 F4 F5 B2 B3 B4 B5");
}

TEST(KfkbOrderTest, ReplicasTakeTurns) {
  // Stage 0: b = 2 by two replicas of one micro-batch each; stage 1: two at once.
  StageGraph graph = chain(2);
  graph.microbatches_per_op = {1, 2};
  const Placement placement{.stages = {{Rank(0), Rank(1)}, {Rank(2)}}};
  const auto orders = kfkb_orders(graph, placement, {}, 8);
  EXPECT_EQ(text_of(orders[1]), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(text_of(orders[0]), "F0 F1 F2 F3 B0 B1 F4 F5 B2 B3 F6 F7 B4 B5 B6 B7");
  const Schedule schedule = orders::on_ranks(orders, placement, 3, 8);
  EXPECT_EQ(text_of(schedule.ranks[1]), "F1 F3 B1 F5 B3 F7 B5 B7");
}

// Whatever the DAG, the replicas and k, and numbers of micro-batches per op that are powers of two or all one: no
// deadlock, and no more in flight than promised.
RC_GTEST_PROP(KfkbOrderTest, AlwaysChecksAndHoldsWhatTheRuleSays, ()) {
  const bool several_per_op = *rc::gen::arbitrary<bool>();
  const int n = *rc::gen::inRange(1, 7);
  const int microbatches = several_per_op ? 4 * *rc::gen::inRange(1, 7) : *rc::gen::inRange(5, 30);
  std::mt19937 random(*rc::gen::arbitrary<unsigned>());
  const auto upto = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  std::vector<std::pair<int, int>> edges;
  for (int a = 0; a < n; ++a)
    for (int c = a + 1; c < n; ++c)
      if (upto(1) == 0) edges.push_back({a, c});
  StageGraph graph = graph_of(n, edges);
  Placement placement;
  std::vector<int> ks;
  int ranks = 0;
  for (int s = 0; s < n; ++s) {
    const int replicas = several_per_op ? 1 << upto(2) : 1 + upto(4);
    if (several_per_op) graph.microbatches_per_op.push_back(replicas == 4 ? 1 : 1 << upto(replicas == 2 ? 1 : 2));
    auto& home = placement.stages.emplace_back();
    for (int r = 0; r < replicas; ++r) home.emplace_back(ranks++);
    ks.push_back(1 + upto(1));
  }
  const auto orders = kfkb_orders(graph, placement, ks, microbatches);
  const Schedule schedule = orders::on_ranks(orders, placement, ranks, microbatches);
  const auto found = check(schedule, graph, placement);
  if (!found.empty()) RC_FAIL(found.front().text);
  const auto config = stage_configs(graph, placement, ks);
  const auto in_flight = kfkb_in_flight(graph, config, microbatches);
  const auto peak = peaks(schedule);
  for (std::size_t s = 0; s < graph.size(); ++s)
    for (const Rank r : placement.stages[s]) {
      const int ops = static_cast<int>(schedule.ranks[r.index()].size()) / 2;
      const int first = (in_flight[s] + config[s].micro_batch - 1) / config[s].micro_batch;
      RC_ASSERT(peak[r.index()].in_flight == std::min(ops, first));
    }
}

}  // namespace
}  // namespace sluice
