// Asteroid as a system: its order, and where its planner's model and the virtual clock tell the same time.
#include <gtest/gtest.h>

#include "harness/base/expect_error.h"
#include "harness/plan/make_plan.h"
#include "harness/plan/plan_test_support.h"
#include "harness/program/check_program.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/program/numerics.h"
#include "harness/program/schedule_picture.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {

extern const System asteroid;

namespace {

Options options_of(const std::map<std::string, std::string>& given) {
  return resolve_options(asteroid.options, given, "test");
}

std::vector<DeviceId> devices_of(int ranks) {
  std::vector<DeviceId> devices;
  for (int r = 0; r < ranks; ++r) devices.emplace_back(r);
  return devices;
}

// The order on stages of F = I = W = 1, drawn.
std::string drawn(const Placement& placement, int ranks, int microbatches,
                  const std::map<std::string, std::string>& given = {}) {
  const int stages = static_cast<int>(placement.stages.size());
  const ScheduleProblem problem{chain(stages), placement, ranks, microbatches};
  const Program program =
      checked(lower(asteroid.schedule(problem, options_of(given)), problem.graph, placement, WeightRule{}));
  return "\n" + draw_schedule(simulate(program, uniform_costs(stages, 1, 1, 1), latency_cluster(ranks, Seconds(0)),
                                       devices_of(ranks))
                                  .trace);
}

TEST(AsteroidTest, KeepsAMicroBatchForEveryStageAndMessageFromItsOwnOn) {
  EXPECT_EQ(drawn(one_stage_per_rank(3), 3, 6), R"(
rank 0  F0F1F2F3F4....B0--F5B1--..B2--..B3--..B4--..B5--
rank 1  ..F0F1F2..B0--F3B1--F4B2--F5B3--..B4--..B5--....
rank 2  ....F0B0--F1B1--F2B2--F3B3--F4B4--F5B5--........
)");
  EXPECT_EQ(drawn(one_stage_per_rank(3), 3, 6, {{"in_flight", "stages"}}), R"(
rank 0  F0F1F2........B0--F3B1--F4B2--F5B3--..B4--..B5--
rank 1  ..F0F1....B0--F2B1--F3B2--F4B3--F5B4--..B5--....
rank 2  ....F0B0--F1B1--F2B2--F3B3--F4B4--F5B5--........
)");
}

// Messages are free here: what is in flight for them neither helps nor costs.
TEST(AsteroidTest, OfEqualStagesTakesAsLongAs1F1B) {
  for (const char* in_flight : {"steps", "stages"})
    for (int p = 1; p <= 8; ++p)
      for (int m = 1; m <= 4 * p; ++m) {
        const ScheduleProblem problem{chain(p), one_stage_per_rank(p), p, m};
        const Options options = options_of({{"in_flight", in_flight}});
        const Program program =
            checked(lower(asteroid.schedule(problem, options), problem.graph, problem.placement, WeightRule{}));
        const Simulation simulation = simulate(program, uniform_costs(p, 3, 2, 5), latency_cluster(p, Seconds(0)),
                                               devices_of(p), {.trace = false});
        EXPECT_NEAR(simulation.end, 10 * (m + p - 1), 1e-9) << in_flight << ", p " << p << ", m " << m;
        EXPECT_NEAR(simulation.bubble.bubble_ratio, asteroid.theory(problem, options).bubble_ratio.value(), 1e-9);
      }
}

// Two devices of stage 0 have three devices and a message from it on: two micro-batches each.
TEST(AsteroidTest, ReplicasTakeWholeMicroBatchesInTurn) {
  const ScheduleProblem problem{chain(2), {.stages = {{Rank(0), Rank(1)}, {Rank(2)}}}, 3, 6};
  EXPECT_EQ(to_text(asteroid.schedule(problem, options_of({}))),
            "rank 0: 0F0 0F2 0B0 0F4 0B2 0B4\n"
            "rank 1: 0F1 0F3 0B1 0F5 0B3 0B5\n"
            "rank 2: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3 1F4 1B4 1F5 1B5\n");
}

// Two layers of F 2 and B 4 seconds, a message of 1 second, weights too heavy to replicate; M = 4. Rank 1 computes from
// 3 on and never waits, as rank 0 has three micro-batches ahead:
//   rank 0  F0 0-2 F1 2-4 F2 4-6  B0 10-14  F3 14-16  B1 16-20  B2 22-26  B3 28-32
//   rank 1  F0 3-5 B0 5-9  F1 9-11 B1 11-15  F2 15-17 B2 17-21  F3 21-23 B3 23-27
// With two ahead, F2 comes after B0 only, and rank 1 has it at 17: B3 ends at 34 in place of 32.
TEST(AsteroidTest, AMicroBatchMoreForEveryMessageHidesIt) {
  const CostGraph costs = chain_costs({6, 6}, {100, 100}, {1, 0});
  const Cluster cluster = machines(1, 2, 1, 1);
  const auto simulated = [&](const char* in_flight) {
    const Options options = options_of({{"in_flight", in_flight}});
    const Plan plan = make_plan(asteroid, {costs, cluster, 2, 4, 4, {}}, options).plan;
    EXPECT_EQ(plan.stages.size(), 2u);
    EXPECT_DOUBLE_EQ(plan.search.objective, 32);
    const RankMap map = ranks_of(plan);
    const ScheduleProblem problem{stage_graph(plan, costs), map.placement, 2, 4};
    const Program program = checked(lower(asteroid.schedule(problem, options), problem.graph, map.placement, {}));
    return simulate(program, costs_of(plan, costs, cluster), cluster, map.devices).end;
  };
  EXPECT_DOUBLE_EQ(simulated("steps"), 32);
  EXPECT_DOUBLE_EQ(simulated("stages"), 34);
}

// Without replicas: the same operations in the same order of summation as on one device, which is a stage alone.
TEST(AsteroidTest, TrainsToTheBitsOfOneDevice) {
  const ModelGraph model{.name = "three layers",
                         .inputs = {{{8}}},
                         .layers = {{"a", Linear{8, 8}, {-1}},
                                    {"b", Linear{8, 8}, {0}},
                                    {"c", Linear{8, 4}, {1}},
                                    {"loss", CrossEntropyLoss{}, {2}}}};
  const auto number = [&](const std::vector<PlanStage>& stages, int microbatches, const char* in_flight) {
    const Plan plan{.stages = stages};
    const RankMap map = ranks_of(plan);
    const ScheduleProblem problem{chain(static_cast<int>(stages.size())), map.placement,
                                  static_cast<int>(map.devices.size()), microbatches};
    const Schedule schedule = asteroid.schedule(problem, options_of({{"in_flight", in_flight}}));
    return numerics(checked(lower(schedule, problem.graph, map.placement, {})), model, plan);
  };
  const std::vector<PlanStage> one = {{.layers = {0, 1, 2, 3}, .devices = {DeviceId(0)}}},
                               three = {{.layers = {0}, .devices = {DeviceId(2)}},
                                        {.layers = {1}, .devices = {DeviceId(0)}},
                                        {.layers = {2, 3}, .devices = {DeviceId(1)}}};
  for (const char* in_flight : {"steps", "stages"})
    for (const int m : {1, 2, 7}) EXPECT_EQ(number(three, m, in_flight), number(one, m, in_flight)) << m;
  EXPECT_NE(number(one, 2, "steps"), number(one, 3, "steps"));
}

TEST(AsteroidTest, APlanThatNoDeviceHoldsIsRejected) {
  const CostGraph costs = chain_costs({6, 6}, {100, 100}, {1, 0});
  Cluster cluster = machines(1, 2, 1, 1);
  for (Device& device : cluster.devices) device.memory = Bytes(100);
  EXPECT_EQ(error_of([&] {
              make_plan(asteroid, {costs, cluster, 2, 4, 4, {}}, options_of({}));
            }),
            "asteroid: no plan on 2 devices fits; use more devices, smaller micro-batches or devices with more memory");
}

}  // namespace
}  // namespace sluice
