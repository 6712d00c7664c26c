// Vectors computed by hand, and the simulator as the judge of the closed form.
#include "systems/dynpipe/partition.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "harness/plan/one_f_one_b_without_flush.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/simulate.h"
#include "systems/dynpipe/period.h"

namespace sluice {
namespace {

double period(std::vector<double> stage, std::vector<double> transfer) {
  return steady_period(stage, transfer).seconds;
}

TEST(DynPipePeriodTest, TwoStagesWaitForHalfOfWhatTheirDifferenceDoesNotHide) {
  EXPECT_DOUBLE_EQ(period({3, 3}, {0}), 3);
  EXPECT_DOUBLE_EQ(period({3, 3}, {0.5}), 3.5);
  EXPECT_DOUBLE_EQ(period({3, 3}, {1}), 4);
  EXPECT_DOUBLE_EQ(period({3, 3}, {2}), 5);
  EXPECT_DOUBLE_EQ(period({3, 5}, {0}), 5);
  EXPECT_DOUBLE_EQ(period({3, 5}, {1}), 5);
  EXPECT_DOUBLE_EQ(period({3, 5}, {2}), 6);
}

TEST(DynPipePeriodTest, TheCriticalIntervalIsNamed) {
  const std::vector<double> stage = {3, 5, 3}, transfer = {1, 2};
  const Period p = steady_period(stage, transfer);
  EXPECT_DOUBLE_EQ(p.seconds, 6);
  EXPECT_EQ(p.first, 1u);
  EXPECT_EQ(p.last, 2u);
}

// The mean time between forwards of the first stage, long after the pipe has filled, on a cluster of links that are as
// slow as asked and never queue.
double simulated_period(const std::vector<double>& forward, const std::vector<double>& backward,
                        const std::vector<double>& transfer) {
  const int stages = static_cast<int>(forward.size()), microbatches = 60 + 60 * stages;
  Costs costs;
  Cluster cluster{.name = "test", .source = "", .devices = std::vector<Device>(forward.size()), .links = {}};
  for (std::size_t s = 0; s < forward.size(); ++s) {
    costs.stages.push_back({Seconds(forward[s]), Seconds(backward[s]), Seconds(0), Seconds(0), Bytes(0)});
    if (s + 1 == forward.size()) continue;
    cluster.links.push_back(
        {DeviceId(s), DeviceId(s + 1), std::numeric_limits<double>::infinity(), Seconds(transfer[s])});
  }
  const Placement placement = one_stage_per_rank(stages);
  const Schedule schedule = one_f_one_b_without_flush({chain(stages), placement, stages, microbatches});
  const Program program =
      lower(schedule, chain(stages), placement, WeightRule{.update = WeightRule::Update::every_backward});
  std::vector<DeviceId> devices;
  for (int r = 0; r < stages; ++r) devices.emplace_back(r);
  const Simulation s = simulate(program, costs, cluster, devices);
  std::vector<double> starts;
  for (const TraceEvent& e : s.trace.ranks[0])
    if (e.instruction.opcode == Opcode::forward) starts.push_back(e.start);
  // 60 micro-batches are a whole number of cycles of every interval of up to six stages.
  constexpr std::size_t over = 60;
  const std::size_t last = starts.size() - static_cast<std::size_t>(stages) - 1;
  return (starts[last] - starts[last - over]) / static_cast<double>(over);
}

TEST(DynPipePeriodTest, TheClosedFormIsTheSimulatorsPeriod) {
  std::mt19937 random(11);
  std::uniform_int_distribution<int> tenths(1, 40), gaps(0, 30), stages(2, 6);
  for (int k = 0; k < 2000; ++k) {
    std::vector<double> forward, backward, transfer, stage;
    const int n = stages(random);
    for (int s = 0; s < n; ++s) {
      forward.push_back(tenths(random) / 8.0);
      backward.push_back(tenths(random) / 8.0);
      stage.push_back(forward.back() + backward.back());
      if (s > 0) transfer.push_back(gaps(random) / 8.0);
    }
    const Period closed = steady_period(stage, transfer);
    ASSERT_NEAR(simulated_period(forward, backward, transfer), closed.seconds, 1e-9) << "case " << k;
  }
}

// Six layers, no memory limit, r as given.
DynPipeChain six_layers() {
  DynPipeChain chain;
  chain.seconds = {6, 6, 3, 3, 6, 6};
  chain.bytes = {0, 1, 3, 1, 3, 1, 0};
  chain.parameters = {1, 1, 2, 2, 4, 6};
  chain.weight = {1, 1, 2, 2, 4, 6};
  chain.speed = {1, 1, 1};
  chain.latency = {0, 0};
  chain.seconds_per_byte = {1, 1};
  return chain;
}

Slowdowns by_device(std::vector<double> r) {
  return [r](int stage, int, int) { return r[stage]; };
}

TEST(DynPipePartitionTest, TheBestCutHidesItsCommunication) {
  const DynPipeChoice best = best_partition(six_layers(), {});
  EXPECT_EQ(best.cuts, (Cuts{2, 4}));
  EXPECT_DOUBLE_EQ(best.cost.period, 14);
  EXPECT_EQ(best.cost.stage, (std::vector<double>{12, 6, 12}));
  EXPECT_EQ(best.cost.transfer, (std::vector<double>{3, 3}));
  EXPECT_DOUBLE_EQ(cost_of(six_layers(), {1, 3}, {}).period, 15);
  const std::vector<double> weight = {2, 4, 10};
  EXPECT_DOUBLE_EQ(mean_staleness(weight), 0.5);
}

TEST(DynPipePartitionTest, ASlowDeviceMovesTheCut) {
  const Slowdowns slow = by_device({1, 1, 2});
  EXPECT_DOUBLE_EQ(cost_of(six_layers(), {2, 4}, slow).period, 24);
  const DynPipeChoice best = best_partition(six_layers(), slow);
  EXPECT_EQ(best.cuts, (Cuts{2, 5}));  // (3, 5) is as good, and later
  EXPECT_DOUBLE_EQ(best.cost.period, 15);
  EXPECT_DOUBLE_EQ(cost_of(six_layers(), {3, 5}, slow).period, 15);
}

TEST(DynPipePartitionTest, HeavyLayersAloneAsTheCodeTakesThemCanBeWorseThanDoingNothing) {
  const Slowdowns slow = by_device({1, 1, 2});
  EXPECT_EQ(candidate_cuts(six_layers(), {2, 4}, {.heaviest = 1, .code = true}), (std::vector<int>{2, 3}));
  EXPECT_DOUBLE_EQ(best_candidate(six_layers(), {2, 4}, slow, {.heaviest = 1, .code = true}).cost.period, 30);
  EXPECT_EQ(best_candidate(six_layers(), {2, 4}, slow, {.heaviest = 2}).cuts, (Cuts{2, 5}));
}

TEST(DynPipePartitionTest, StalenessMovesParametersToTheFresherStages) {
  DynPipeChain chain = six_layers();
  chain.lambda = 0.2;
  DynPipeChoice best = best_partition(chain, {});
  EXPECT_EQ(best.cuts, (Cuts{2, 4}));
  EXPECT_DOUBLE_EQ(best.cost.objective, 15.4);
  EXPECT_DOUBLE_EQ(cost_of(chain, {1, 3}, {}).objective, 15.9375);
  chain.lambda = 1;
  best = best_partition(chain, {});
  EXPECT_EQ(best.cuts, (Cuts{1, 3}));
  EXPECT_DOUBLE_EQ(best.cost.objective, 19.6875);
  best = best_partition(chain, by_device({1, 1, 2}));
  EXPECT_EQ(best.cuts, (Cuts{2, 5}));
  EXPECT_DOUBLE_EQ(best.cost.objective, 26.25);
}

TEST(DynPipePartitionTest, AStageThatDoesNotFitIsNotChosen) {
  DynPipeChain chain = six_layers();
  chain.fits = [](int first, int last, int) { return last - first <= 2; };
  EXPECT_EQ(best_partition(chain, {}).cuts, (Cuts{2, 4}));
  chain.fits = [](int, int, int) { return false; };
  EXPECT_TRUE(best_partition(chain, {}).cuts.empty());
}

TEST(DynPipePartitionTest, TheSearchOfLongChainsComesCloseToTheBest) {
  std::mt19937 random(5);
  std::uniform_int_distribution<int> tenths(1, 40);
  for (int k = 0; k < 20; ++k) {
    DynPipeChain chain;
    chain.bytes.push_back(0);
    for (int l = 0; l < 14; ++l) {
      chain.seconds.push_back(tenths(random));
      chain.bytes.push_back(tenths(random) / 2.0);
      chain.parameters.push_back(1);
      chain.weight.push_back(1);
    }
    chain.speed = {1, 1, 0.5, 1};
    chain.latency = {0, 0, 0};
    chain.seconds_per_byte = {1, 1, 1};
    const double best = best_partition(chain, {}).cost.objective, found = best_partition(chain, {}, 1).cost.objective;
    EXPECT_GE(found, best);
    EXPECT_LE(found, 1.15 * best);
  }
}

}  // namespace
}  // namespace sluice
