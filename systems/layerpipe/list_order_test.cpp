#include "systems/layerpipe/list_order.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "harness/program/check_program.h"
#include "harness/program/check_schedule.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/costs.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

ScheduleProblem problem_of(int stages, const std::vector<int>& weight_gradients, int microbatches) {
  Placement placement = one_stage_per_rank(stages);
  for (int s = 0; s < stages; ++s)
    placement.weight_gradient_ranks.emplace_back(weight_gradients[s] == s ? -1 : weight_gradients[s]);
  const int ranks = placement.rank_count();
  return {.graph = chain(stages), .placement = placement, .ranks = ranks, .microbatches = microbatches};
}

const WeightRule kLate{.update = WeightRule::Update::every_backward, .weight_gradient_delay = 1};

double seconds_per_micro_batch(const ScheduleProblem& problem, int delay = 1) {
  WeightRule rule = kLate;
  rule.weight_gradient_delay = delay;
  const Program program = checked(lower(list_order(problem, delay), problem.graph, problem.placement, rule));
  Costs costs = uniform_costs(problem.stages(), 1, 1, 1);
  if (!problem.costs.empty()) costs.stages = problem.costs;
  std::vector<DeviceId> devices;
  for (int r = 0; r < problem.ranks; ++r) devices.emplace_back(r);
  const Simulation s = simulate(program, costs, latency_cluster(problem.ranks, Seconds(0)), devices, {.trace = false});
  // Of the middle: the pipe is full.
  const std::size_t quarter = s.update_end.size() / 4;
  return (s.update_end[3 * quarter] - s.update_end[quarter]) / static_cast<double>(2 * quarter);
}

TEST(ListOrder, TwoGroupsOnThreeProcessorsTakeTwoOpsAMicroBatch) {
  const ScheduleProblem problem = problem_of(2, {2, 2}, 5);
  EXPECT_EQ(to_text(list_order(problem, 1)),
            "rank 0: 0F0 0F1 0I0 0F2 0I1 0F3 0I2 0F4 0I3 0I4\n"
            "rank 1: 1F0 1I0 1F1 1I1 1F2 1I2 1F3 1I3 1F4 1I4\n"
            "rank 2: 1W0 0W0 1W1 0W1 1W2 0W2 1W3 0W3 1W4 0W4\n");
  EXPECT_NEAR(seconds_per_micro_batch(problem_of(2, {2, 2}, 64)), 2, 1e-9);
}

TEST(ListOrder, WithoutADelayAStageWaitsForItsWeightGradients) {
  EXPECT_NEAR(seconds_per_micro_batch(problem_of(1, {1}, 64), 1), 2, 1e-9);
  EXPECT_NEAR(seconds_per_micro_batch(problem_of(1, {1}, 64), 0), 3, 1e-9);
}

TEST(ListOrder, WeightGradientsThatStayFollowTheirInputGradient) {
  EXPECT_EQ(to_text(list_order(problem_of(2, {0, 1}, 2), 1)),
            "rank 0: 0F0 0F1 0I0 0W0 0I1 0W1\n"
            "rank 1: 1F0 1I0 1W0 1F1 1I1 1W1\n");
}

// Whichever rank runs which W, whatever the times: a schedule that checks, and a program that ends.
RC_GTEST_PROP(ListOrder, EndsForEveryPlaceOfTheWeightGradients, ()) {
  const int stages = *rc::gen::inRange(1, 6), more = *rc::gen::inRange(0, 3), microbatches = *rc::gen::inRange(1, 10),
            delay = *rc::gen::inRange(0, 4);
  std::vector<int> weights;
  for (int s = 0; s < stages; ++s) weights.push_back(*rc::gen::inRange(0, stages + more));
  ScheduleProblem problem = problem_of(stages, weights, microbatches);
  for (int s = 0; s < stages; ++s)
    problem.costs.push_back({Seconds(*rc::gen::inRange(0, 5)), Seconds(*rc::gen::inRange(0, 5)),
                             Seconds(*rc::gen::inRange(0, 5)), Seconds(0), Bytes(0)});
  const Schedule schedule = list_order(problem, delay);
  RC_ASSERT(check(schedule, problem.graph, problem.placement).empty());
  WeightRule rule = kLate;
  rule.weight_gradient_delay = delay;
  RC_ASSERT(check(lower(schedule, problem.graph, problem.placement, rule)).empty());
}

}  // namespace
}  // namespace sluice
