#include "harness/plan/chain_partition.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <numeric>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

std::function<double(int, int, int)> sum_of(std::vector<double> seconds) {
  return [seconds = std::move(seconds)](int first, int last, int) {
    return std::accumulate(seconds.begin() + first, seconds.begin() + last, 0.0);
  };
}

// Every cut, one after the other.
double brute_force(int layers, int stages, const std::function<double(int, int, int)>& seconds) {
  double best = kUnlimited;
  std::vector<int> cuts;
  const std::function<void(int, double)> extend = [&](int first, double slowest) {
    const int stage = static_cast<int>(cuts.size());
    if (stage + 1 == stages) {
      best = std::min(best, std::max(slowest, seconds(first, layers, stage)));
      return;
    }
    for (int last = first + 1; last <= layers - (stages - stage - 1); ++last) {
      cuts.push_back(last);
      extend(last, std::max(slowest, seconds(first, last, stage)));
      cuts.pop_back();
    }
  };
  extend(0, 0);
  return best;
}

RC_GTEST_PROP(PartitionChainTest, IsAsGoodAsBruteForce, ()) {
  const int layers = *rc::gen::inRange(1, 10);
  const int stages = *rc::gen::inRange(1, layers + 1);
  std::vector<double> table(static_cast<std::size_t>(layers) * stages);
  for (double& t : table) t = *rc::gen::inRange(0, 20);
  // A layer takes another time on every stage's device, and a stage pays for its message.
  const auto seconds = [&](int first, int last, int stage) {
    double total = first % 3;
    for (int l = first; l < last; ++l) total += table[stage * layers + l];
    return total;
  };
  double slowest = -1;
  const auto cuts = partition_chain(layers, stages, seconds, &slowest);
  RC_ASSERT(slowest == brute_force(layers, stages, seconds));
  RC_ASSERT(cuts.size() == static_cast<std::size_t>(stages) + 1);
  RC_ASSERT(cuts.front() == 0 && cuts.back() == layers);
  double worst = 0;
  for (int s = 0; s < stages; ++s) {
    const int first = cuts[s], last = cuts[static_cast<std::size_t>(s) + 1];
    RC_ASSERT(first < last);
    worst = std::max(worst, seconds(first, last, s));
  }
  RC_ASSERT(worst == slowest);
}

RC_GTEST_PROP(PartitionChainTest, OneTableHasTheCutsOfEveryNumberOfStages, ()) {
  const int layers = *rc::gen::inRange(1, 12);
  const int max_stages = *rc::gen::inRange(1, layers + 1);
  std::vector<double> seconds(static_cast<std::size_t>(layers));
  for (double& s : seconds) s = *rc::gen::inRange(0, 5);
  const auto stage_seconds = sum_of(seconds);
  const auto all =
      partitions_of_chain(layers, max_stages, [&](int first, int last) { return stage_seconds(first, last, 0); });
  RC_ASSERT(all.size() == static_cast<std::size_t>(max_stages));
  for (int stages = 1; stages <= max_stages; ++stages)
    RC_ASSERT(all[static_cast<std::size_t>(stages) - 1] == partition_chain(layers, stages, stage_seconds));
}

TEST(PartitionChainTest, TiesKeepTheEarliestCut) {
  EXPECT_EQ(partition_chain(5, 2, sum_of({1, 1, 1, 1, 1})), (std::vector{0, 2, 5}));
  EXPECT_EQ(partition_chain(4, 2, sum_of({0, 0, 0, 0})), (std::vector{0, 1, 4}));
}

TEST(PartitionChainTest, AStagePerLayerIsTheOnlyCut) {
  EXPECT_EQ(partition_chain(3, 3, sum_of({5, 1, 9})), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(partition_chain(3, 1, sum_of({5, 1, 9})), (std::vector{0, 3}));
}

TEST(PartitionChainTest, ImpossibleCutsAreRejected) {
  EXPECT_EQ(error_of([] {
              partition_chain(2, 3, sum_of({1, 1}));
            }),
            "plan: 3 stages for 2 layers; use at most as many stages as layers, and at least one");
  EXPECT_NE(error_of([] { partition_chain(2, 0, sum_of({1, 1})); }), "no error");
  EXPECT_EQ(error_of([] { partition_chain(3, 2, [](int, int, int) { return kUnlimited; }); }),
            "plan: no cut of 3 layers into 2 stages takes a finite time");
}

CostGraph layers_of(const std::vector<double>& seconds) {
  CostGraph graph{.model = "m", .source = "test", .device = "d", .micro_batch = 4, .layers = {}};
  for (std::size_t i = 0; i < seconds.size(); ++i)
    graph.layers.push_back({"layer" + std::to_string(i),
                            {static_cast<int>(i) - 1},
                            Seconds(seconds[i]),
                            Seconds(seconds[i]),
                            Seconds(seconds[i]),
                            Seconds(0),
                            Bytes(0),
                            Bytes(0)});
  return graph;
}

Cluster devices_of(const std::vector<double>& speeds) {
  Cluster cluster{.name = "c", .source = "", .devices = {}, .links = {}};
  for (const double speed : speeds) cluster.devices.push_back({.speed = speed});
  return cluster;
}

Problem problem_of(const CostGraph& costs, const Cluster& cluster) {
  return {costs, cluster, static_cast<int>(cluster.devices.size()), 16, 4, {}};
}

TEST(BalancedChainTest, FasterDevicesGetMoreLayers) {
  const CostGraph costs = layers_of({1, 1, 1, 1, 1, 1});
  const Cluster cluster = devices_of({2, 1});
  const Plan plan = balanced_chain(problem_of(costs, cluster), 2, "test");
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].layers, (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(plan.stages[1].devices, std::vector{DeviceId(1)});
  EXPECT_DOUBLE_EQ(plan.search.objective, 6);  // F + I + W of two layers at speed 1
  EXPECT_EQ(plan.micro_batch, 4);
  EXPECT_TRUE(plan.search.complete);
}

// Four layers of 3 s; layer 2 reads layer 0, too, so that two tensors of 6 bytes cross the cut in the middle and one
// crosses each of the others. A latency is 0.5 s.
TEST(BalancedChainTest, CutsThatCountMessagesDoNotSplitAResidualBlockOverASlowLink) {
  CostGraph costs = layers_of({1, 1, 1, 1});
  for (LayerCost& layer : costs.layers) layer.output = Bytes(6);
  costs.layers[2].inputs = {1, 0};
  Cluster cluster = devices_of({1, 1});
  cluster.links = {{DeviceId(0), DeviceId(1), 24, Seconds(0.5)}};
  Problem problem = problem_of(costs, cluster);
  EXPECT_EQ(balanced_chain(problem, 2, "test").stages[0].layers, (std::vector{0, 1}));
  problem.cuts_count_messages = true;
  // In the middle: 6 s + 2 x (0.5 s + 12 / 24 s) = 8 s. Before layer 3: 9 s, and 3 s + 2 x (0.5 s + 6 / 24 s).
  EXPECT_EQ(balanced_chain(problem, 2, "test").search.objective, 8);
  cluster.links[0].bandwidth = 4;  // in the middle 6 s + 2 x (0.5 s + 12 / 4 s) = 13 s, before layer 3 still 9 s
  const Plan plan = balanced_chain(problem, 2, "test");
  EXPECT_EQ(plan.stages[0].layers, (std::vector{0, 1, 2}));
  EXPECT_EQ(plan.search.objective, 9);
  cluster.links[0].bandwidth = 12;
  problem.inference = true;  // nothing comes back: in the middle 6 s + 0.5 s + 12 / 12 s
  EXPECT_EQ(balanced_chain(problem, 2, "test").search.objective, 7.5);
}

TEST(BalancedChainTest, FusedLayersStayWithTheOneBefore) {
  CostGraph costs = layers_of({1, 1, 1, 1});
  costs.layers[2].fused = costs.layers[3].fused = true;
  const Cluster cluster = devices_of({1, 1});
  const Plan plan = balanced_chain(problem_of(costs, cluster), 2, "test");
  EXPECT_EQ(plan.stages[0].layers, (std::vector{0}));
  EXPECT_EQ(plan.stages[1].layers, (std::vector{1, 2, 3}));
  EXPECT_EQ(error_of([&] { balanced_chain(problem_of(costs, cluster), 3, "test"); }),
            "test: 3 stages for a model of 2 cuttable layers; use at most 2 ranks");
}

TEST(BalancedChainTest, GivenStagesAreTaken) {
  CostGraph costs = layers_of({1, 1, 1, 1, 1});
  costs.layers[3].fused = true;  // stays with layer 2
  const Cluster cluster = devices_of({1, 1});
  Problem problem = problem_of(costs, cluster);
  problem.first_layers = {1};
  const Plan plan = balanced_chain(problem, 2, "test");
  EXPECT_EQ(plan.stages[0].layers, (std::vector{0}));
  EXPECT_EQ(plan.stages[1].layers, (std::vector{1, 2, 3, 4}));
  EXPECT_EQ(plan.search.objective, 12);  // F + I + W of four layers
  const auto rejected = [&](const std::vector<int>& first_layers) {
    problem.first_layers = first_layers;
    return error_of([&] { balanced_chain(problem, 2, "test"); });
  };
  EXPECT_EQ(rejected({1, 2}),
            "stages: 3 stages are given, and test cuts the model into 2; give 1 first layers, those of all stages but "
            "the first");
  for (const int layer : {3, 5})
    EXPECT_EQ(rejected({layer}), "stages: no stage can begin with layer " + std::to_string(layer) +
                                     " of a model of layers 0 to 4; give the layer before it where it is a view or a "
                                     "loss: they stay with that one");
}

// Cuts at the bars only: layers 0 | 1 2 | 3 4 | 5 6 | 7. The first of the equally good ones is taken.
TEST(BalancedChainTest, CutsAreWhereTheProblemLetsThemBe) {
  const CostGraph costs = layers_of({1, 1, 1, 1, 1, 1, 1, 1});
  Cluster cluster{.name = "c", .source = "", .devices = std::vector<Device>(2, Device{.speed = 1}), .links = {}};
  Problem problem = problem_of(costs, cluster);
  problem.cut_before = {1, 3, 5, 7};
  const Plan plan = balanced_chain(problem, 2, "test");
  EXPECT_EQ(plan.stages[1].layers.front(), 3);
  problem.cut_before = {7};
  EXPECT_EQ(balanced_chain(problem, 2, "test").stages[1].layers, std::vector{7});
  problem.devices = 3;
  EXPECT_NE(error_of([&] { balanced_chain(problem, 3, "test"); }).find("3 stages for a model of 2 cuttable blocks"),
            std::string::npos);
}

TEST(ChunkedChainTest, GivenStagesAreThoseOfEveryDeviceInTurn) {
  const CostGraph costs = layers_of(std::vector<double>(12, 1));
  const Cluster cluster = devices_of({1, 1});
  Problem problem = problem_of(costs, cluster);
  problem.first_layers = {1, 2, 3};
  const Plan plan = chunked_chain(problem, 2, ChunkPlacement::loop, "test");
  EXPECT_EQ(plan.stages[2].layers, (std::vector{2}));
  EXPECT_EQ(plan.stages[2].devices, std::vector{DeviceId(0)});
  EXPECT_EQ(plan.stages[3].layers.size(), 9u);
}

TEST(BalancedChainTest, MoreRanksThanDevicesAreRejected) {
  const CostGraph costs = layers_of({1, 1, 1, 1});
  const Cluster cluster = devices_of({1, 1});
  EXPECT_EQ(error_of([&] { balanced_chain(problem_of(costs, cluster), 3, "test"); }),
            "test: 3 ranks on a cluster of 2 devices; use fewer ranks or a larger cluster");
}

std::vector<int> devices_of_stages(const Plan& plan) {
  std::vector<int> result;
  for (const PlanStage& stage : plan.stages) result.push_back(stage.devices.front().value);
  return result;
}

TEST(ChunkedChainTest, StagesGoRoundOrBackAndForth) {
  const CostGraph costs = layers_of(std::vector<double>(12, 1));
  const Cluster cluster = devices_of({1, 1, 1});
  const Plan loop = chunked_chain(problem_of(costs, cluster), 2, ChunkPlacement::loop, "test");
  EXPECT_EQ(devices_of_stages(loop), (std::vector{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(loop.stages[4].layers, (std::vector{8, 9}));
  const Plan wave = chunked_chain(problem_of(costs, cluster), 3, ChunkPlacement::wave, "test");
  EXPECT_EQ(devices_of_stages(wave), (std::vector{0, 1, 2, 2, 1, 0, 0, 1, 2}));
}

TEST(ChunkedChainTest, BalancesOnTheDeviceOfEveryStage) {
  // Device 0 is twice as fast: two layers in each of its stages, one in each of device 1's.
  const CostGraph costs = layers_of(std::vector<double>(6, 1));
  const Cluster cluster = devices_of({2, 1});
  const Plan plan = chunked_chain(problem_of(costs, cluster), 2, ChunkPlacement::loop, "test");
  std::vector<std::size_t> sizes;
  for (const PlanStage& stage : plan.stages) sizes.push_back(stage.layers.size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{2, 1, 2, 1}));
}

TEST(ChunkedChainTest, AModelTooShortIsRejected) {
  CostGraph costs = layers_of(std::vector<double>(6, 1));
  const Cluster cluster = devices_of({1, 1, 1});
  const auto rejection = [&](int chunks) {
    return error_of([&] { chunked_chain(problem_of(costs, cluster), chunks, ChunkPlacement::loop, "test"); });
  };
  EXPECT_EQ(rejection(2), "no error");
  EXPECT_EQ(rejection(3), "test: 9 stages for a model of 6 layers; use fewer ranks, or fewer stages on each than 3");
  EXPECT_EQ(rejection(1'000'000'000),
            "test: 3000000000 stages for a model of 6 layers; use fewer ranks, or fewer stages on "
            "each than 1000000000");
  costs.layers[5].fused = true;
  EXPECT_EQ(rejection(2),
            "test: 6 stages for a model of 5 cuttable layers; use at most 2 ranks with 2 stages on "
            "each");
}

TEST(BidirectionalChainTest, EveryStageIsOnTwoDevices) {
  const CostGraph costs = layers_of(std::vector<double>(8, 1));
  const Cluster cluster = devices_of({1, 1, 1, 1});
  const Plan plan = bidirectional_chain(problem_of(costs, cluster), {0, 1, 0, 1}, "test");
  const RankMap map = ranks_of(plan);
  EXPECT_EQ(map.devices, (std::vector{DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)}));
  EXPECT_EQ(map.placement.rank_of(StageId(1), Micro(0)), Rank(1));
  EXPECT_EQ(map.placement.rank_of(StageId(1), Micro(3)), Rank(2));
}

TEST(BidirectionalChainTest, TwoChunksPerDeviceRunDownAndBackUp) {
  const CostGraph costs = layers_of(std::vector<double>(8, 1));
  const Cluster cluster = devices_of({1, 1, 1, 1});
  const RankMap map = ranks_of(bidirectional_chain(problem_of(costs, cluster), {0, 1, 0, 1}, "test", 2));
  const auto on = [](int down, int up) { return std::vector{Rank(down), Rank(up)}; };
  EXPECT_EQ(map.placement.stages, (std::vector{on(0, 3), on(1, 2), on(2, 1), on(3, 0),  //
                                               on(3, 0), on(2, 1), on(1, 2), on(0, 3)}));
}

}  // namespace
}  // namespace sluice
