// Vocabulary Parallelism's orders against times computed by hand, and the memory that its authors state.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "harness/base/expect_error.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {

extern const System vocabulary_parallelism;

namespace {

const char* const kVariants[] = {"one_barrier", "two_barriers", "interlaced"};

// Seconds of F and B of a stage, and of a slice's F, I and W together.
struct Times {
  double f, b, s;
};

struct Order {
  UniformChain chain;
  Schedule schedule;
  Cluster cluster;
};

Order order_of(const char* variant, int ranks, int microbatches, Times t = {1, 2, 3}) {
  const Options options = resolve_options(vocabulary_parallelism.options, {{"variant", variant}}, "test");
  const Cluster cluster = latency_cluster(ranks, Seconds(0));
  const auto cost = [](double f, double i, double w) {
    return StageCost{Seconds(f), Seconds(i), Seconds(w), Seconds(0), Bytes(0)};
  };
  Order order{uniform_chain(vocabulary_parallelism, options, cluster, ranks, microbatches, cost(1, 1, 1)), {}, cluster};
  std::vector<StageCost>& costs = order.chain.problem.costs;
  for (int s = 0; s < 2 * ranks; ++s)
    costs[s] = s < ranks ? cost(t.f, t.b / 2, t.b / 2) : cost(t.s / 3, t.s / 3, t.s / 3);
  order.schedule = vocabulary_parallelism.schedule(order.chain.problem, options);
  return order;
}

double makespan(const Order& order) {
  const ScheduleProblem& problem = order.chain.problem;
  const Program program = checked(lower(order.schedule, problem.graph, problem.placement, {}));
  return simulate(program, {problem.costs, {}}, order.cluster, order.chain.devices, {.trace = false}).bubble.makespan;
}

// (m + p - 1)(f + b) + m s. The last one: times that the authors measured with 256k words and 2,048 positions.
TEST(VocabularyParallelismTest, HasTheBubbleOf1F1BAndASliceMoreForEveryMicroBatch) {
  for (const char* variant : kVariants) {
    SCOPED_TRACE(variant);
    EXPECT_NEAR(makespan(order_of(variant, 4, 12, {1, 2, 0.25})), 48, 1e-9);
    EXPECT_NEAR(makespan(order_of(variant, 8, 32, {1, 2, 0.25})), 125, 1e-9);
    EXPECT_NEAR(makespan(order_of(variant, 8, 128, {10.9, 22.5, 8.4})), 5584.2, 1e-6);
  }
}

// The slots of all ranks coincide also where B is not 2 F.
TEST(VocabularyParallelismTest, OrdersFollowTheTimesOfForwardAndBackward) {
  for (const char* variant : {"one_barrier", "two_barriers"})
    for (const Times t : {Times{1, 1, 2}, Times{1, 1.3, 2}, Times{2, 3, 1}, Times{1, 3, 1}, Times{1, 0.8, 1}})
      for (const int p : {2, 3, 5, 8})
        for (const int m : {1, 2, 7, 20})
          EXPECT_NEAR(makespan(order_of(variant, p, m, t)), (m + p - 1) * (t.f + t.b) + m * t.s, 1e-9)
              << variant << ", f " << t.f << ", b " << t.b << ", p " << p << ", m " << m;
  EXPECT_NE(order_of("one_barrier", 4, 8, {1, 1, 1}).schedule, order_of("one_barrier", 4, 8, {1, 2, 1}).schedule);
}

// Micro-batches of a rank's stage between F and B, its slices left out.
std::vector<int> in_flight(const Order& order) {
  std::vector<int> peaks;
  for (const auto& ops : order.schedule.ranks) {
    int held = 0;
    peaks.push_back(0);
    for (const Op& op : ops) {
      if (op.stage.value >= order.chain.problem.ranks) continue;
      held += op.kind == OpKind::forward ? 1 : -1;
      peaks.back() = std::max(peaks.back(), held);
    }
  }
  return peaks;
}

TEST(VocabularyParallelismTest, HoldsOneOrTwoMicroBatchesMoreThan1F1BAndInterlacedHalfAsManyMore) {
  EXPECT_EQ(in_flight(order_of("one_barrier", 4, 12)), (std::vector{5, 4, 3, 2}));
  EXPECT_EQ(in_flight(order_of("two_barriers", 4, 12)), (std::vector{6, 5, 4, 3}));
  EXPECT_EQ(in_flight(order_of("interlaced", 4, 12)), (std::vector{6, 5, 4, 3}));
  EXPECT_EQ(in_flight(order_of("one_barrier", 8, 32)).front(), 9);
  EXPECT_EQ(in_flight(order_of("two_barriers", 8, 32)).front(), 10);
  EXPECT_EQ(in_flight(order_of("interlaced", 8, 32)).front(), 12);
}

// On the wall clock a slice's F waits for those of all ranks (the sums over the group).
bool ends_where_slices_meet(const Order& order) {
  const ScheduleProblem& problem = order.chain.problem;
  const int p = problem.ranks;
  std::set<std::pair<int, int>> forwards, gradients;  // stage and micro-batch
  std::vector<std::size_t> next(order.schedule.ranks.size(), 0);
  const auto op_of = [&](int r) -> const Op* {
    const auto& ops = order.schedule.ranks[r];
    return next[r] < ops.size() ? &ops[next[r]] : nullptr;
  };
  const auto may_run = [&](const Op& op) {
    if (op.kind == OpKind::weight_gradient) return true;
    const bool forward = op.kind == OpKind::forward;
    const auto& others = forward ? problem.graph.predecessors : problem.graph.successors;
    return std::ranges::all_of(others[op.stage.index()], [&](StageId s) {
      return (forward ? forwards : gradients).contains({s.value, op.micro.value});
    });
  };
  const auto run = [&](int r) {
    const Op& op = *op_of(r);
    if (op.kind != OpKind::weight_gradient)
      (op.kind == OpKind::forward ? forwards : gradients).insert({op.stage.value, op.micro.value});
    ++next[r];
  };
  for (bool moved = true; moved;) {
    moved = false;
    bool all_meet = true;
    for (int r = 0; r < p; ++r) {
      const auto is_meeting = [&] { return op_of(r)->kind == OpKind::forward && op_of(r)->stage.value >= p; };
      while (op_of(r) && !is_meeting() && may_run(*op_of(r))) {
        run(r);
        moved = true;
      }
      all_meet = all_meet && op_of(r) && is_meeting() && may_run(*op_of(r)) && op_of(r)->micro == op_of(0)->micro;
    }
    for (int r = 0; all_meet && r < p; ++r) run(r);
    moved = moved || all_meet;
  }
  for (int r = 0; r < p; ++r)
    if (op_of(r)) return false;
  return true;
}

TEST(VocabularyParallelismTest, EndsAlsoWhereTheSlicesOfAllRanksMeetInEveryForward) {
  for (const char* variant : kVariants)
    for (const Times t : {Times{1, 2, 3}, Times{1, 1, 1}, Times{2, 3, 1}, Times{1, 3, 1}})
      for (int p = 2; p <= 8; ++p)
        for (int m = 1; m <= 3 * p + 1; ++m)
          EXPECT_TRUE(ends_where_slices_meet(order_of(variant, p, m, t))) << variant << ", p " << p << ", m " << m;
  Order crossed = order_of("one_barrier", 2, 2);
  std::swap(crossed.schedule.ranks[0][0], crossed.schedule.ranks[0][2]);
  EXPECT_FALSE(ends_where_slices_meet(crossed));
}

TEST(VocabularyParallelismTest, TheEmbeddingsPassesAreInTheSlots) {
  const Options options = resolve_options(vocabulary_parallelism.options, {}, "test");
  // Two ranks: slices 0 and 1 of the embedding, stages 2 and 3, slices 4 and 5 of the head.
  ScheduleProblem problem{stage_graph(6,
                                      {{StageId(0), StageId(2)},
                                       {StageId(1), StageId(2)},
                                       {StageId(2), StageId(3)},
                                       {StageId(3), StageId(4)},
                                       {StageId(3), StageId(5)}},
                                      "test"),
                          {{{Rank(0)}, {Rank(1)}, {Rank(0)}, {Rank(1)}, {Rank(0)}, {Rank(1)}}},
                          2,
                          4};
  EXPECT_EQ(to_text(vocabulary_parallelism.schedule(problem, options)),
            "rank 0: 0F0 0F1 2F0 0F2 2F1 4F0 4I0 2F2 4W0 4F1 4I1 0F3 2B0 4W1 4F2 4I2 2F3 2B1 4W2 4F3 4I3 0B0 2B2 2B3 "
            "4W3 0B1 0B2 0B3\n"
            "rank 1: 1F0 1F1 1F2 3F0 5F0 5I0 3F1 3B0 5W0 5F1 5I1 1F3 3F2 3B1 5W1 5F2 5I2 3F3 3B2 5W2 5F3 5I3 1B0 3B3 "
            "5W3 1B1 1B2 1B3\n");
}

TEST(VocabularyParallelismTest, NeedsTwoRanksAndSlices) {
  EXPECT_EQ(error_of([] { vocabulary_parallelism.require(1, 4, {}); }),
            "vocabulary_parallelism: one rank has all words, so that there is nothing to divide; use at least 2 ranks, "
            "or 1f1b");
}

}  // namespace
}  // namespace sluice
