// Orders as rules: the ops of the schedule, and their times and peaks as those of the lowered program.
#include "harness/sim/chain_clock.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <optional>
#include <set>
#include <stdexcept>

#include "harness/base/error.h"
#include "harness/pipeline/orders.h"
#include "harness/program/lowering.h"
#include "harness/sim/simulate.h"
#include "harness/tests/made_schedule.h"
#include "harness/tests/test_support.h"

namespace sluice {
namespace {

struct Ruled {
  const System* system;
  Options options;
};

// Every system with a rule, under every value of its choices.
std::vector<Ruled> ruled_systems() {
  std::vector<Ruled> result;
  for (const System* system : all_systems())
    if (system->op_rule)
      for (const Given& given : option_sets(*system))
        result.push_back({system, resolve_options(system->options, given, "test")});
  return result;
}

// None: the system has no order for this number of micro-batches.
std::optional<Made> made_if_possible(const Ruled& ruled, int p, int m) {
  try {
    return make(ruled.system->name, p, m, ruled.options.values());
  } catch (const InputError&) {
    return std::nullopt;
  }
}

TEST(ChainClock, RulesGiveTheOpsOfTheSchedules) {
  std::set<std::string> compared;
  for (const Ruled& ruled : ruled_systems())
    for (const auto& [p, m] : {std::pair(1, 1), {1, 5}, {2, 1}, {4, 2}, {4, 4}, {4, 9}, {7, 20}}) {
      const std::optional<Made> made = made_if_possible(ruled, p, m);
      const OpRule rule = made ? ruled.system->op_rule(made->chain.problem, ruled.options) : OpRule();
      if (!rule) continue;
      compared.insert(ruled.system->name + testing::PrintToString(ruled.options.values()));
      for (int r = 0; r < p; ++r) {
        const std::vector<Op>& ops = made->schedule.ranks[static_cast<std::size_t>(r)];
        ASSERT_EQ(std::ssize(ops), rule.ops) << ruled.system->name;
        for (std::size_t k = 0; k < ops.size(); ++k)
          ASSERT_EQ(rule(r, static_cast<std::int64_t>(k)), ops[k])
              << ruled.system->name << " rank " << r << " op " << k;
      }
    }
  EXPECT_GE(compared.size(), 9) << "1F1B, GPipe in two orders, interleaved 1F1B in four, zero bubble in two";
}

// GPipe of 3 stages and 2 micro-batches by hand, F 1, B 2, messages 1 late:
//   rank 0  F0 F1 .  .  .  .  .  .  .  .  B1 B1 B0 B0
//   rank 1  .  .  F0 F1 .  .  .  B1 B1 B0 B0
//   rank 2  .  .  .  .  F0 F1 B1 B1 B0 B0
TEST(ChainClock, TimesAPipelineByHand) {
  const std::vector<StageCost> costs(3, {Seconds(1), Seconds(1), Seconds(1), Seconds(0), Bytes(0)});
  const ChainTimes times = time_chain(orders::fill_drain_rule(2, BackwardOrder::lifo), costs, 3, 2, Seconds(1), 2);
  EXPECT_EQ(times.bubble.makespan, 16);
  EXPECT_EQ(times.bubble.idle, (std::vector<double>{10, 10, 10}));
  EXPECT_EQ(times.update_end, (std::vector<double>{16, 32}));
  EXPECT_EQ(times.barrier_end, 17) << "rank 0 steps last and tells the others";
  for (const RankPeak& peak : times.peak) EXPECT_EQ(peak.in_flight, 2);
}

RC_GTEST_PROP(ChainClock, IsTheSimulatorToTheBit, ()) {
  const auto systems = ruled_systems();
  const Ruled ruled = *rc::gen::elementOf(systems);
  const int p = *rc::gen::inRange(1, 9), m = *rc::gen::inRange(1, 30);
  const Seconds latency(*rc::gen::element(0.0, 0.1, 1.7));
  const std::optional<Made> possible = made_if_possible(ruled, p, m);
  RC_PRE(possible.has_value());
  const Made& made = *possible;
  const OpRule rule = ruled.system->op_rule(made.chain.problem, ruled.options);
  RC_PRE(static_cast<bool>(rule));
  std::vector<StageCost> costs;
  const auto seconds = [] { return Seconds(*rc::gen::inRange(1, 1000) / 7.0); };
  const ScheduleProblem& problem = made.chain.problem;
  for (int s = 0; s < problem.stages(); ++s) costs.push_back({seconds(), seconds(), seconds(), Seconds(0), Bytes(0)});
  const auto simulated_with = [&](bool barrier, int updates) {
    return simulate(lower(made.schedule, problem.graph, problem.placement, {}, {}, {.step_barrier = barrier}),
                    {costs, {}}, latency_cluster(p, latency), made.chain.devices, {.iterations = updates});
  };
  const Simulation simulated = simulated_with(false, 3);
  const ChainTimes times = time_chain(rule, costs, p, m, latency, 3);
  RC_ASSERT(times.update_end == simulated.update_end);
  RC_ASSERT(times.barrier_end == simulated_with(true, 1).end);
  RC_ASSERT(times.bubble.makespan == simulated.bubble.makespan);
  RC_ASSERT(times.bubble.idle == simulated.bubble.idle);
  RC_ASSERT(times.bubble.bubble_ratio == simulated.bubble.bubble_ratio);
  RC_ASSERT(times.bubble.span_bubble == simulated.bubble.span_bubble);
  const std::vector<RankPeak> expected = peaks(made.schedule);
  for (std::size_t r = 0; r < expected.size(); ++r) {
    RC_ASSERT(times.peak[r].in_flight == expected[r].in_flight);
    RC_ASSERT(times.peak[r].until_weight_gradient == expected[r].until_weight_gradient);
  }
}

TEST(ChainClock, RejectsARuleThatIsNoOrder) {
  const std::vector<StageCost> costs(2, {Seconds(1), Seconds(1), Seconds(1), Seconds(0), Bytes(0)});
  const auto time = [&](const auto& op) { time_chain({op, 4}, costs, 2, 2, Seconds(0), 1); };
  const auto right = orders::one_f_one_b_rule(2, 2).op;
  EXPECT_NO_THROW(time(right));
  // Micro-batch 0 twice; backwards first on the last rank; another order of messages; forwards only; W without I; the
  // other rank's stage.
  EXPECT_THROW(time([&](int s, std::int64_t k) { return s == 0 && k < 2 ? forward_op(0, 0) : right(s, k); }),
               std::logic_error);
  EXPECT_THROW(time([&](int s, std::int64_t k) { return s == 1 ? right(1, k ^ 1) : right(s, k); }), std::logic_error);
  EXPECT_THROW(
      time([&](int s, std::int64_t k) { return s == 1 && k % 2 == 0 ? forward_op(1, k == 0 ? 1 : 0) : right(s, k); }),
      std::logic_error);
  EXPECT_THROW(time([&](int s, std::int64_t k) { return forward_op(s, static_cast<int>(k % 2)); }), std::logic_error);
  EXPECT_THROW(time([&](int s, std::int64_t k) { return weight_gradient_op(s, static_cast<int>(k % 2)); }),
               std::logic_error);
  EXPECT_THROW(time([&](int s, std::int64_t k) { return right(1 - s, k); }), std::logic_error);
  // Every rank waits for the other's gradient or activation.
  EXPECT_THROW(time([](int s, std::int64_t k) {
                 return (s == 0) == (k % 2 == 0) ? backward_op(s, static_cast<int>(k / 2))
                                                 : forward_op(s, static_cast<int>(k / 2));
               }),
               std::logic_error);
}

}  // namespace
}  // namespace sluice
