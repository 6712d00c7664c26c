// PipeDream-2BW with its planner's plans: replicas of a pipeline, each stage's replicas taking the
// micro-batches in turn. baselines/pipedream_2bw/two_bw_plan_test.cpp tests what the planner chooses.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/base/expect_error.h"
#include "harness/pipeline/system.h"
#include "harness/plan/make_plan.h"
#include "harness/plan/plan_test_support.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

// Four equal layers with so much weight that a plan has stages, and so much traffic between them
// that it has two, on four devices: HeavyWeightsMakeItDeep of the planner's tests.
class TwoBwSystemTest : public testing::Test {
 protected:
  Options options(const std::map<std::string, std::string>& set = {}) const {
    std::map<std::string, std::string> values = {{"planner", "paper"}};
    for (const auto& [name, value] : set) values[name] = value;
    return resolve_options(system_.options, values, "test");
  }
  Plan plan(const Options& with) const { return make_plan(system_, {costs_, cluster_, 4, 16, 16, {}}, with).plan; }
  static bool recomputes(const Plan& plan) { return std::ranges::all_of(plan.stages, &PlanStage::recompute); }
  ScheduleProblem order(const Plan& plan, int microbatches, int per_update) const {
    const RankMap map = ranks_of(plan);
    ScheduleProblem problem{stage_graph(plan, costs_), map.placement, 4, microbatches};
    problem.microbatches_per_update = per_update;
    if (recomputes(plan)) problem.recompute.assign(plan.stages.size(), true);
    return problem;
  }
  Program program(const ScheduleProblem& problem, const Options& with) const {
    return lower(system_.schedule(problem, with), problem.graph, problem.placement, system_.weights(problem, with));
  }

  const System& system_ = find_system("pipedream_2bw", "test");
  const CostGraph costs_ = chain_costs({3, 3, 3, 3}, {100, 100, 100, 100}, {1, 1, 1, 0});
  Cluster cluster_ = machines(1, 4, 10, 10);
};

TEST_F(TwoBwSystemTest, TwoCopiesOfTwoStages) {
  const Plan best = plan(options());
  ASSERT_EQ(best.stages.size(), 2u);
  EXPECT_EQ(best.stages[0].layers, (std::vector{0, 1}));
  EXPECT_EQ(best.stages[0].devices, (std::vector{DeviceId(0), DeviceId(1)}));
  EXPECT_EQ(best.stages[1].devices, (std::vector{DeviceId(2), DeviceId(3)}));
  ASSERT_NE(best.search.objective_name, SearchReport().objective_name);
  EXPECT_NEAR(best.search.objective, 6.2 / 2, 1e-12);
  EXPECT_EQ(best.search.states, 3);  // 1, 2 and 4 deep
  EXPECT_TRUE(best.search.complete);
}

TEST_F(TwoBwSystemTest, CopiesAddUpTheirSharesOfAnUpdate) {
  const Plan best = plan(options());
  const Program p = program(order(best, 12, 4), options());
  EXPECT_EQ(p.updates, 3);
  EXPECT_EQ(p.microbatches_per_step, (std::vector{4, 4}));
  EXPECT_EQ(p.rule.accumulate, 2);
  // On every rank micro-batches of update b read version max(b - 1, 0), and every update steps
  // once, after an all-reduce.
  for (const auto& rank : p.ranks) {
    int steps = 0, reductions = 0;
    for (const Instruction& i : rank) {
      if (i.opcode == Opcode::forward || i.opcode == Opcode::backward) {
        EXPECT_EQ(i.version, std::max(i.micro.value / 4 - 1, 0)) << to_text(i);
      }
      steps += i.opcode == Opcode::optimizer_step;
      reductions += i.opcode == Opcode::reduce_gradients;
    }
    EXPECT_EQ(steps, 3);
    EXPECT_EQ(reductions, 3);
  }
  EXPECT_TRUE(check(p).empty());
}

TEST_F(TwoBwSystemTest, TheSimulatorAgreesWithTheObjectiveOnALongRun) {
  for (Link& link : cluster_.links) link.bandwidth = 1e9;  // the two count messages differently
  const CostGraph light = chain_costs({3, 3, 3, 3}, {0, 0, 0, 0}, {0, 0, 0, 0});
  const Plan best = plan(options());  // two replicas of two stages, as the cluster was not yet fast
  const ScheduleProblem problem = order(best, 16 * 64, 16);
  const double seconds = simulate(program(problem, options()), costs_of(best, light, cluster_), cluster_,
                                  ranks_of(best).devices, {.trace = false})
                             .end /
                         (16 * 64);
  EXPECT_NEAR(seconds, 6.0 / 2, 0.02);
}

TEST_F(TwoBwSystemTest, RecomputesWhereThePlannerCountsOnIt) {
  for (Device& device : cluster_.devices) device.memory = Bytes(402);
  // 2 * 200 bytes of weights; 4 of activations on the first of two stages without recomputation.
  const Plan never = plan(options());
  EXPECT_EQ(never.stages.size(), 4u);
  EXPECT_FALSE(recomputes(never));
  const Plan chosen = plan(options({{"recompute", "auto"}}));
  EXPECT_EQ(chosen.stages.size(), 4u);  // recomputing costs more than the messages
  const auto rule = [&](Plan of, const char* recompute) {
    const Options with = options({{"recompute", recompute}});
    return system_.weights(order(of, 16, 16), with).recompute;
  };
  EXPECT_EQ(rule(chosen, "auto"), WeightRule::Recompute::none);
  Plan counting = chosen;
  for (PlanStage& stage : counting.stages) stage.recompute = true;
  EXPECT_EQ(rule(counting, "auto"), WeightRule::Recompute::forward_weights);
  EXPECT_EQ(rule(counting, "no"), WeightRule::Recompute::none);
  EXPECT_EQ(rule(chosen, "yes"), WeightRule::Recompute::forward_weights);
  EXPECT_TRUE(recomputes(plan(options({{"recompute", "yes"}}))));
}

TEST_F(TwoBwSystemTest, WhatDoesNotFitOrDivideIsRejected) {
  const Plan best = plan(options());
  EXPECT_EQ(error_of([&] { program(order(best, 9, 3), options()); }),
            "microbatches: 3 per update cannot be shared by 2 copies of the pipeline; give a "
            "multiple");
  for (Device& device : cluster_.devices) device.memory = Bytes(10);
  EXPECT_EQ(error_of([&] { plan(options()); }),
            "pipedream_2bw: no width and depth on 4 devices fit their memory with as many "
            "micro-batches as stages; use more micro-batches, or recompute=auto");
}

}  // namespace
}  // namespace sluice
