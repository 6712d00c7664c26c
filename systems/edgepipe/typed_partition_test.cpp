#include "systems/edgepipe/typed_partition.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "systems/edgepipe/device_types.h"

namespace sluice {
namespace {

constexpr double kMiB = 1048576;
constexpr int kA = 0, kB = 1;  // types

// Four layers of 1 MiB, an input of 1 MiB and cuts of 1, 0.5 and 1 MiB; a layer takes 1 s on A and 2 s on B.
struct Boards {
  int a = 1, b = 1;
  double bandwidth = kMiB;  // bytes/s
  double memory_a = 100 * kMiB, memory_b = 100 * kMiB;
};

TypedChain chain_of(const Boards& boards) {
  TypedChain chain{.layers = 4,
                   .counts = {boards.a, boards.b},
                   .seconds = {{1, 1, 1, 1}, {2, 2, 2, 2}},
                   .bytes = {kMiB, kMiB, 0.5 * kMiB, kMiB, 4096},
                   .bandwidth = {{boards.bandwidth, boards.bandwidth}, {boards.bandwidth, boards.bandwidth}}};
  chain.fits = [boards, bytes = chain.bytes](int type, int first, int last) {
    return fits_with_buffers(type == kA ? boards.memory_a : boards.memory_b, (last - first) * kMiB, bytes, first, last,
                             {});
  };
  return chain;
}

using TypedStages = std::vector<TypedStage>;

TEST(TypedPartition, GivesTheSlowerDeviceLess) {
  const TypedPartition plan = partition_over_types(chain_of({}));
  EXPECT_DOUBLE_EQ(plan.period, 3);
  EXPECT_EQ(plan.stages, (TypedStages{{kA, 0, 3}, {kB, 3, 4}}));
  EXPECT_DOUBLE_EQ(period_of(chain_of({}), {{kB, 0, 1}, {kA, 1, 4}}), 3);  // as good, with the higher type first
}

TEST(TypedPartition, TakesFewerStagesWhereTheyAreAsFast) {
  const TypedPartition plan = partition_over_types(chain_of({.bandwidth = kMiB / 4}));
  EXPECT_DOUBLE_EQ(plan.period, 4);
  EXPECT_EQ(plan.stages, (TypedStages{{kA, 0, 4}}));
}

TEST(TypedPartition, SplitsWhatDoesNotFit) {
  const TypedPartition plan = partition_over_types(chain_of({.memory_a = 5 * kMiB}));
  EXPECT_DOUBLE_EQ(plan.period, 4);
  EXPECT_EQ(plan.stages, (TypedStages{{kA, 0, 2}, {kB, 2, 4}}));
}

TEST(TypedPartition, LeavesOutADeviceThatHoldsNothing) {
  const TypedPartition plan = partition_over_types(chain_of({.memory_a = 3 * kMiB}));
  EXPECT_DOUBLE_EQ(plan.period, 8);
  EXPECT_EQ(plan.stages, (TypedStages{{kB, 0, 4}}));
}

TEST(TypedPartition, LeavesOutADeviceThatWouldOnlyBeSlower) {
  const TypedPartition plan = partition_over_types(chain_of({.a = 2}));
  EXPECT_DOUBLE_EQ(plan.period, 2);
  EXPECT_EQ(plan.stages, (TypedStages{{kA, 0, 2}, {kA, 2, 4}}));
}

TEST(TypedPartition, SplitsWhereTheTransferIsShortestIfMemoryForcesASplit) {
  const TypedPartition plan =
      partition_over_types(chain_of({.bandwidth = 65536, .memory_a = 5 * kMiB, .memory_b = 5 * kMiB}));
  EXPECT_DOUBLE_EQ(plan.period, 8);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].last, 2);
}

TEST(TypedPartition, SaysThatNothingFits) {
  const TypedPartition plan = partition_over_types(chain_of({.memory_a = kMiB, .memory_b = kMiB}));
  EXPECT_EQ(plan.period, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(plan.stages.empty());
}

TEST(TypedPartition, ALongerRangeMayFitWhereAShorterOneDoesNot) {
  TypedChain chain = chain_of({});
  chain.bytes = {0, 50 * kMiB, 0, 0, 0};
  chain.fits = [bytes = chain.bytes](int, int first, int last) {
    return fits_with_buffers(10 * kMiB, (last - first) * kMiB, bytes, first, last, {});
  };
  EXPECT_FALSE(chain.fits(kA, 0, 1));
  EXPECT_TRUE(chain.fits(kA, 0, 2));
  const TypedPartition plan = partition_over_types(chain);
  EXPECT_DOUBLE_EQ(plan.period, 3);
  EXPECT_EQ(plan.stages, (TypedStages{{kA, 0, 3}, {kB, 3, 4}}));
}

TEST(TypedPartition, BuffersCountAtBothEnds) {
  const std::vector<double> bytes{kMiB, kMiB, kMiB / 2, kMiB, 4096};
  // 2 layers; two messages of 0.5 MiB to send; 1 MiB in and 0.5 MiB out while it runs.
  EXPECT_FALSE(fits_with_buffers(4.5 * kMiB, 2 * kMiB, bytes, 0, 2, {}));  // no byte is left
  EXPECT_TRUE(fits_with_buffers(4.5 * kMiB + 1, 2 * kMiB, bytes, 0, 2, {}));
  // From the second layer on two messages of 1 MiB wait to be taken besides.
  EXPECT_FALSE(fits_with_buffers(5.5 * kMiB, kMiB, bytes, 1, 2, {}));
  EXPECT_TRUE(fits_with_buffers(5.5 * kMiB + 1, kMiB, bytes, 1, 2, {}));
}

// Every order of devices and every cut.
void try_all(const TypedChain& chain, TypedStages& stages, std::vector<int>& left, int from, double& best) {
  if (from == chain.layers) {
    best = std::min(best, period_of(chain, stages));
    return;
  }
  for (std::size_t u = 0; u < left.size(); ++u) {
    if (left[u] == 0) continue;
    --left[u];
    for (int to = from + 1; to <= chain.layers; ++to) {
      if (chain.fits && !chain.fits(static_cast<int>(u), from, to)) continue;
      stages.push_back({static_cast<int>(u), from, to});
      try_all(chain, stages, left, to, best);
      stages.pop_back();
    }
    ++left[u];
  }
}

TEST(TypedPartition, IsTheBestOfAllPlansOnRandomProblems) {
  std::mt19937 random(7);
  const auto number = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  int infeasible = 0;
  for (int n = 0; n < 500; ++n) {
    SCOPED_TRACE(n);
    TypedChain chain{.layers = number(1, 6)};
    const int types = number(1, 3);
    std::vector<double> memory;
    for (int u = 0; u < types; ++u) {
      chain.counts.push_back(number(1, 2));
      auto& seconds = chain.seconds.emplace_back();
      for (int l = 0; l < chain.layers; ++l) seconds.push_back(number(1, 20));
      memory.push_back(number(5, 120));
    }
    for (int l = 0; l <= chain.layers; ++l) chain.bytes.push_back(number(0, 20));
    for (int u = 0; u < types; ++u) {
      auto& row = chain.bandwidth.emplace_back();
      for (int v = 0; v < types; ++v) row.push_back(v < u ? chain.bandwidth[v][u] : 1.0 / number(1, 4));
    }
    std::vector<double> weights;
    for (int l = 0; l < chain.layers; ++l) weights.push_back(number(1, 20));
    chain.fits = [&](int type, int first, int last) {
      double sum = 0;
      for (int l = first; l < last; ++l) sum += weights[l];
      return fits_with_buffers(memory[type], sum, chain.bytes, first, last, {});
    };
    double best = std::numeric_limits<double>::infinity();
    TypedStages stages;
    std::vector<int> left = chain.counts;
    try_all(chain, stages, left, 0, best);
    const TypedPartition plan = partition_over_types(chain);
    EXPECT_EQ(plan.period, best);
    if (plan.stages.empty()) {
      ++infeasible;
      continue;
    }
    EXPECT_EQ(period_of(chain, plan.stages), best);
    for (const TypedStage& stage : plan.stages) EXPECT_TRUE(chain.fits(stage.type, stage.first, stage.last));
  }
  EXPECT_GT(infeasible, 10);
  EXPECT_LT(infeasible, 400);
}

TEST(DeviceTypes, AreToldApartBySpeedAndByLinks) {
  Cluster cluster{.name = "test"};
  cluster.devices.resize(4);
  cluster.devices[3].speed = 2;
  const auto join = [&](int a, int b, double bandwidth) {
    cluster.links.push_back({.from = DeviceId(a), .to = DeviceId(b), .bandwidth = bandwidth});
  };
  join(0, 1, 10), join(0, 2, 5), join(0, 3, 10), join(1, 2, 5), join(1, 3, 10), join(2, 3, 5);
  const std::vector<DeviceType> types = device_types(cluster, Bandwidths(cluster, 4));
  ASSERT_EQ(types.size(), 3u);  // 2 is reached more slowly, 3 is faster
  EXPECT_EQ(types[0].devices, (std::vector{DeviceId(0), DeviceId(1)}));
  EXPECT_EQ(types[1].devices, std::vector{DeviceId(2)});
  EXPECT_EQ(types[2].devices, std::vector{DeviceId(3)});
}

}  // namespace
}  // namespace sluice
