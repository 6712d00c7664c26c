#include "baselines/dapple/dapple_search.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "harness/base/expect_error.h"
#include "harness/plan/plan_test_support.h"

namespace sluice {
namespace {

// Small pipelines: the formula of latency_model.h, its three parts and its pivot.
struct Case {
  const char* name;
  std::vector<LatencyStage> stages;
  int microbatches;
  double seconds;
  int pivot;
  double warm_up, steady, ending;
};

TEST(PipelineLatencyTest, TabulatedCases) {
  const std::vector<Case> cases = {
      {"DP-1", {{2, 4, 0}, {0, 0, 0}, {2, 4, 0}}, 4, 30, 2, 4, 18, 8},
      {"DP-2", {{2, 4, 3}, {1, 1, 0}, {2, 4, 0}}, 4, 35, 2, 5, 18, 12},
      {"DP-3", {{6, 8, 2}, {1, 1, 0}, {2, 4, 5}}, 5, 72, 0, 6, 56, 10},
      {"DP-4", {{1, 2, 1}, {.5, .5, 0}, {1, 2, 1}, {.5, .5, 0}, {5, 9, 1}}, 6, 93, 4, 8, 70, 15},
      {"DP-5", {{3, 5, 4}}, 4, 36, 0, 3, 24, 9},
      {"DP-6", {{2, 4, 0}, {1, 1, 0}, {3, 6, 0}}, 1, 17, 2, 6, 0, 11},
      {"DP-7", {{1, 1, 0}, {5, 5, 0}, {1, 1, 0}}, 4, 42, 1, 6, 30, 6},
      {"DP-8", {{2, 4, 0}, {0, 0, 0}, {2, 4, 30}}, 4, 56, 2, 4, 18, 34},
  };
  for (const Case& c : cases) {
    const PipelineLatency latency = pipeline_latency(c.stages, c.microbatches);
    EXPECT_DOUBLE_EQ(latency.seconds, c.seconds) << c.name;
    EXPECT_EQ(latency.pivot, c.pivot) << c.name;
    EXPECT_DOUBLE_EQ(latency.warm_up, c.warm_up) << c.name;
    EXPECT_DOUBLE_EQ(latency.steady, c.steady) << c.name;
    EXPECT_DOUBLE_EQ(latency.ending, c.ending) << c.name;
  }
}

TEST(DappleSearchTest, OneDeviceTakesItAll) {
  const LayerGroupGraph graph = layer_groups(chain_costs({3, 6}, {}, {}));
  const DappleResult result = dapple_search(graph, machines(1, 1, 1, 1), {.devices = 1, .microbatches = 4});
  ASSERT_EQ(result.best.stages.size(), 1u);
  EXPECT_DOUBLE_EQ(result.best.latency.seconds, 36);
}

TEST(DappleSearchTest, LightWeightsAreReplicatedAndHeavyOnesAreNot) {
  const Cluster cluster = machines(1, 2, 10, 10);
  const LayerGroupGraph light = layer_groups(chain_costs({3, 3}, {0, 0}, {100, 0}));
  EXPECT_EQ(dapple_search(light, cluster, {.devices = 2, .microbatches = 4}).best.stages.size(), 1u);
  const LayerGroupGraph heavy = layer_groups(chain_costs({3, 3}, {1000, 1000}, {0, 0}));
  EXPECT_EQ(dapple_search(heavy, cluster, {.devices = 2, .microbatches = 4}).best.stages.size(), 2u);
}

TEST(DappleSearchTest, AStageStaysInsideAMachine) {
  // Heavy weights, all-reduced at 100 bytes/s inside a machine and 1 across.
  const LayerGroupGraph graph = layer_groups(chain_costs({12, 12}, {100, 100}, {1, 0}));
  const DappleResult result = dapple_search(graph, machines(2, 2, 100, 1), {.devices = 4, .microbatches = 8});
  ASSERT_EQ(result.best.stages.size(), 2u);
  EXPECT_EQ(result.best.stages[0].devices, (std::vector{DeviceId(0), DeviceId(1)}));
  EXPECT_EQ(result.best.stages[1].devices, (std::vector{DeviceId(2), DeviceId(3)}));
}

TEST(DappleSearchTest, ScatteringIsForHeavyTraffic) {
  // Nothing to all-reduce, much to send between stages of different size: with the first stage
  // spread over both machines ... every pair is then slow in part, so it must not be chosen here,
  // while as the only policy it is what there is.
  const LayerGroupGraph graph = layer_groups(chain_costs({9, 3}, {0, 0}, {0, 0}));
  const DappleResult result =
      dapple_search(graph, machines(2, 2, 100, 1),
                    {.devices = 4, .microbatches = 8, .max_replicas = 3, .policies = {DapplePolicy::scatter}});
  ASSERT_EQ(result.best.stages.size(), 2u);
  ASSERT_EQ(result.best.stages[0].devices.size(), 3u);
  EXPECT_EQ(result.best.stages[0].devices, (std::vector{DeviceId(0), DeviceId(1), DeviceId(2)}));
  EXPECT_EQ(result.best.stages[1].devices, std::vector{DeviceId(3)});
}

TEST(DappleSearchTest, MemoryCountsTheMicroBatchesInFlight) {
  Cluster cluster = machines(1, 2, 1e9, 1e9);
  for (Device& device : cluster.devices) device.memory = Bytes(25);
  const LayerGroupGraph graph = layer_groups(chain_costs({3, 3}, {0, 0}, {10, 10}));
  // Two stages: the first keeps two micro-batches of 10 bytes. One stage on two devices: 20 / 2.
  const DappleResult fits = dapple_search(graph, cluster, {.devices = 2, .microbatches = 4});
  EXPECT_FALSE(fits.best.stages.empty());
  for (Device& device : cluster.devices) device.memory = Bytes(9);
  EXPECT_TRUE(dapple_search(graph, cluster, {.devices = 2, .microbatches = 4}).best.stages.empty());
}

TEST(DappleSearchTest, OutOfTimeKeepsAPlan) {
  const LayerGroupGraph graph = layer_groups(chain_costs({3, 3, 3}, {0, 0, 0}, {1, 1, 1}));
  const DappleResult result =
      dapple_search(graph, machines(1, 3, 10, 10), {.devices = 3, .microbatches = 4, .limits = {.seconds = 0}});
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.best.stages.size(), 1u);
}

TEST(DappleSearchTest, TooManyDevicesAreRejected) {
  const LayerGroupGraph graph = layer_groups(chain_costs({3}, {}, {}));
  EXPECT_EQ(error_of([&] { dapple_search(graph, machines(1, 2, 1, 1), {.devices = 3}); }),
            "plan: 3 devices of a cluster of 2; use fewer devices or a larger cluster");
}

// Every cut and every count of devices for each stage, devices in their order: on one flat machine
// the policies give no others.
double brute_force(const LayerGroupGraph& graph, const Cluster& cluster, int devices, int microbatches) {
  const int n = static_cast<int>(graph.groups.size());
  double best = 1e300;
  std::vector<DappleStage> stages;
  const std::function<void(int, int)> extend = [&](int first, int used) {
    for (int last = first + 1; last <= n; ++last)
      for (int m = 1; used + m <= devices; ++m) {
        if ((last == n) != (used + m == devices)) continue;
        DappleStage stage{.first = first, .last = last};
        for (int d = used; d < used + m; ++d) stage.devices.emplace_back(d);
        stages.push_back(stage);
        if (last == n)
          best =
              std::min(best, pipeline_latency(latency_stages(graph, cluster, devices, stages), microbatches).seconds);
        else
          extend(last, used + m);
        stages.pop_back();
      }
  };
  extend(0, 0);
  return best;
}

RC_GTEST_PROP(DappleSearchTest, FindsWhatItScoresAndNeverBeatsBruteForce, ()) {
  const std::size_t n = *rc::gen::inRange<std::size_t>(1, 6);
  std::vector<double> c(n);
  std::vector<std::int64_t> w(n), a(n);
  for (std::size_t i = 0; i < n; ++i) {
    c[i] = *rc::gen::inRange(1, 12);
    w[i] = *rc::gen::inRange(0, 40);
    a[i] = *rc::gen::inRange(0, 20);
  }
  const LayerGroupGraph graph = layer_groups(chain_costs(c, w, a));
  const int devices = *rc::gen::inRange(1, 5), m = *rc::gen::inRange(1, 9);
  const Cluster cluster = machines(1, devices, 10, 10);
  const DappleResult result = dapple_search(graph, cluster, {.devices = devices, .microbatches = m});
  RC_ASSERT(!result.best.stages.empty());
  std::set<DeviceId> used;
  int at = 0;
  for (const DappleStage& stage : result.best.stages) {
    RC_ASSERT(stage.first == at);
    at = stage.last;
    for (const DeviceId d : stage.devices) RC_ASSERT(used.insert(d).second);
  }
  RC_ASSERT(at == static_cast<int>(n));
  RC_ASSERT(static_cast<int>(used.size()) == devices);
  const double scored = pipeline_latency(latency_stages(graph, cluster, devices, result.best.stages), m).seconds;
  RC_ASSERT(std::abs(scored - result.best.latency.seconds) <= 1e-9 * scored);
  // It keeps one plan a state, judged with the rest as one stage, so it may miss the best; with up
  // to two stages it cannot.
  const double best = brute_force(graph, cluster, devices, m);
  RC_ASSERT(result.best.latency.seconds >= best * (1 - 1e-9));
  if (devices <= 2) RC_ASSERT(result.best.latency.seconds <= best * (1 + 1e-9));
}

}  // namespace
}  // namespace sluice
