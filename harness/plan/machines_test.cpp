#include "harness/plan/machines.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/base/expect_error.h"
#include "harness/plan/plan_test_support.h"

namespace sluice {
namespace {

TEST(MachineTreeTest, FlatIsOneLevel) {
  const MachineTree tree = machine_tree(Bandwidths(machines(1, 4, 10, 10), 4));
  EXPECT_EQ(tree.counts, std::vector{4});
  EXPECT_EQ(tree.bandwidths, std::vector{10.0});
}

TEST(MachineTreeTest, MachinesOfFastLinksAreALevelOfTheirOwn) {
  const MachineTree tree = machine_tree(Bandwidths(machines(3, 2, 100, 5), 6));
  EXPECT_EQ(tree.counts, (std::vector{2, 3}));
  EXPECT_EQ(tree.bandwidths, (std::vector{100.0, 5.0}));
}

TEST(BandwidthsTest, TooManyDevicesAreRejectedBeforeTheirPairsAreKept) {
  Cluster many;
  many.devices.resize(100'000);
  many.all_to_all.emplace();
  try {
    Bandwidths(many, 100'000).slowest();
    FAIL() << "must throw";
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(),
                 "plan: 100000 devices are too many to compare every pair of them; use at most 4096, or "
                 "another system");
  }
}

TEST(MachineTreeTest, DevicesOfAMachineComeTogether) {
  Cluster cluster = machines(1, 4, 1, 1);  // pairs {0, 2} and {1, 3} are fast
  for (Link& link : cluster.links)
    if ((link.to.value - link.from.value) == 2) link.bandwidth = 8;
  const MachineTree tree = machine_tree(Bandwidths(cluster, 4));
  EXPECT_EQ(tree.counts, (std::vector{2, 2}));
  EXPECT_EQ(tree.order, (std::vector{DeviceId(0), DeviceId(2), DeviceId(1), DeviceId(3)}));
}

TEST(MachineTreeTest, UnevenGroupsAreNoLevel) {
  const MachineTree tree = machine_tree(Bandwidths(machines(2, 2, 100, 5), 3));
  EXPECT_EQ(tree.counts, std::vector{3});
  EXPECT_EQ(tree.bandwidths, std::vector{5.0});
  const MachineTree one = machine_tree(Bandwidths(machines(1, 1, 1, 1), 1));
  EXPECT_EQ(one.counts, std::vector{1});
  EXPECT_TRUE(std::isinf(one.bandwidths[0]));
}

TEST(BandwidthsTest, AreOfThePathsSlowestLink) {
  Cluster line{.name = "line", .devices = {{}, {}, {}}};
  line.links = {{DeviceId(0), DeviceId(1), 10}, {DeviceId(1), DeviceId(2), 4}};
  const Bandwidths bandwidths(line, 3);
  EXPECT_DOUBLE_EQ(bandwidths.between(DeviceId(0), DeviceId(2)), 4);
  EXPECT_DOUBLE_EQ(bandwidths.between(DeviceId(2), DeviceId(0)), 4);
  EXPECT_DOUBLE_EQ(bandwidths.slowest(), 4);
  EXPECT_DOUBLE_EQ(bandwidths.within({DeviceId(0), DeviceId(1)}), 10);
  EXPECT_TRUE(std::isinf(bandwidths.within({DeviceId(1)})));
  EXPECT_EQ(error_of([&] { Bandwidths(line, 4); }),
            "plan: 4 devices of a cluster of 3; use fewer devices or a larger cluster");
}

TEST(CostsOnSlowestTest, TakeTheSlowestDeviceOfEachLayer) {
  CostGraph costs = chain_costs({3, 6}, {}, {});
  costs.layers[1].on = {{"quick", Seconds(1), Seconds(0), Seconds(0)}};
  Cluster cluster = machines(1, 2, 1, 1);
  cluster.devices[0].speed = 0.5;
  cluster.devices[1].name = "quick";
  const CostGraph slow = costs_on_slowest(costs, cluster, 2);
  EXPECT_DOUBLE_EQ(slow.layers[0].forward.value, 2);
  EXPECT_DOUBLE_EQ(slow.layers[1].forward.value, 4);
  cluster.devices[0].name = "quick";
  EXPECT_DOUBLE_EQ(costs_on_slowest(costs, cluster, 2).layers[1].forward.value, 1);
  cluster.devices[1].memory = Bytes(7);
  EXPECT_DOUBLE_EQ(smallest_memory(cluster, 2), 7);
}

// The costs are 4 + 2 seconds, 8 + 4 measured on "slow": half as fast, whatever its speed said. "other" has no times.
TEST(MeasuredSpeeds, AreThoseOfTheWholeModelWhereADeviceWasMeasured) {
  CostGraph costs;
  for (const double forward : {4.0, 2.0}) {
    LayerCost layer{.forward = Seconds(forward)};
    layer.on = {{"slow", Seconds(forward), Seconds(forward / 2), Seconds(forward / 2)}};
    costs.layers.push_back(layer);
  }
  Cluster cluster;
  cluster.devices = {{.name = "slow", .speed = 1}, {.name = "other", .speed = 3}, {.name = "slow", .speed = 1}};
  const Cluster seen = with_measured_speeds(cluster, costs);
  EXPECT_DOUBLE_EQ(seen.devices[0].speed, 0.5);
  EXPECT_EQ(seen.devices[1].speed, 3);
  EXPECT_DOUBLE_EQ(seen.devices[2].speed, 0.5);
}

}  // namespace
}  // namespace sluice
