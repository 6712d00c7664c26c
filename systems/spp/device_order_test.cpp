#include "systems/spp/device_order.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

Link link(int from, int to, double bandwidth) {
  return {DeviceId(from), DeviceId(to), bandwidth, Seconds(0), true, -1};
}

SquareMatrix groups(const std::vector<int>& group_of, double inside, double outside) {
  SquareMatrix result(group_of.size());
  for (std::size_t a = 0; a < group_of.size(); ++a)
    for (std::size_t b = 0; b < group_of.size(); ++b) result.at(a, b) = group_of[a] == group_of[b] ? inside : outside;
  return result;
}

TEST(DeviceOrderTest, FlatBandwidthsKeepTheOrder) {
  for (std::size_t n = 1; n <= 9; ++n) {
    std::vector<int> identity(n);
    std::iota(identity.begin(), identity.end(), 0);
    EXPECT_EQ(recursive_min_cut_order(SquareMatrix(n, 3)), identity);
    EXPECT_EQ(recursive_min_cut_order(SquareMatrix(n, std::numeric_limits<double>::infinity())), identity);
  }
}

TEST(DeviceOrderTest, FastLinksStandTogether) {
  EXPECT_EQ(recursive_min_cut_order(groups({0, 1, 0, 1}, 8, 1)), (std::vector{0, 2, 1, 3}));
  EXPECT_EQ(recursive_min_cut_order(groups({0, 1, 2, 2, 1, 0}, 5, 1)), (std::vector{0, 5, 1, 4, 2, 3}));
}

TEST(DeviceOrderTest, TheSlowerDirectionCounts) {
  SquareMatrix one_way = groups({0, 0, 1, 1}, 8, 1);
  one_way.at(0, 2) = one_way.at(1, 3) = 100;  // but 1 back
  EXPECT_EQ(recursive_min_cut_order(one_way), (std::vector{0, 1, 2, 3}));
}

// Every cut of the recursion is a range of the order: servers stay whole.
RC_GTEST_PROP(DeviceOrderTest, IsAPermutationThatKeepsServersWhole, ()) {
  const int servers = *rc::gen::inRange(1, 5);
  std::vector<int> server_of;
  for (int s = 0; s < servers; ++s) server_of.insert(server_of.end(), *rc::gen::inRange<std::size_t>(1, 4), s);
  server_of = *rc::gen::map(rc::gen::arbitrary<std::uint32_t>(), [&](std::uint32_t seed) {
    std::vector<int> shuffled = server_of;
    for (std::size_t i = shuffled.size(); i > 1; --i) {
      seed = seed * 1664525u + 1013904223u;
      std::swap(shuffled[i - 1], shuffled[(seed >> 8) % i]);
    }
    return shuffled;
  });
  // Within a server so fast that no cut goes through one while there are two.
  const std::vector<int> order = recursive_min_cut_order(groups(server_of, 1000, 1));
  std::vector<int> sorted = order, identity(server_of.size());
  std::ranges::sort(sorted);
  std::iota(identity.begin(), identity.end(), 0);
  RC_ASSERT(sorted == identity);
  int changes = 1;
  for (std::size_t k = 1; k < order.size(); ++k) changes += server_of[order[k]] != server_of[order[k - 1]];
  RC_ASSERT(changes == servers);
}

TEST(PairBandwidthsTest, ThePathsSlowestLinkCounts) {
  Cluster cluster{.name = "c", .source = "", .devices = std::vector<Device>(4), .links = {}};
  cluster.links = {link(0, 1, 8e9), link(1, 2, 2e9), link(2, 3, 4e9)};
  const SquareMatrix b = pair_bandwidths(cluster, 4);
  EXPECT_EQ(b.at(0, 1), 8e9);
  EXPECT_EQ(b.at(0, 3), 2e9);
  EXPECT_EQ(b.at(3, 0), 2e9);
  EXPECT_EQ(b.at(2, 2), std::numeric_limits<double>::infinity());
  EXPECT_EQ(pair_bandwidths(cluster, 2).size(), 2u);
}

TEST(PairBandwidthsTest, DevicesWithoutAPathAreRejected) {
  Cluster cluster{.name = "c", .source = "", .devices = std::vector<Device>(3), .links = {}};
  cluster.links = {link(0, 1, 1)};
  EXPECT_EQ(error_of([&] { pair_bandwidths(cluster, 3); }),
            "cluster 'c': no path between devices 0 and 2; add a link that connects them");
}

}  // namespace
}  // namespace sluice
