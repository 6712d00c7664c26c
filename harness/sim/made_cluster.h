// Clusters that tests build link by link.
#pragma once

#include <utility>
#include <vector>

#include "harness/model/cluster.h"

namespace sluice {

// Devices 0 .. `devices` - 1 and these links.
inline Cluster cluster_of(int devices, std::vector<Link> links) {
  return {.name = "test",
          .source = "",
          .devices = std::vector<Device>(static_cast<std::size_t>(devices)),
          .links = std::move(links)};
}

// bandwidth: bytes a second. latency: seconds.
inline Link link(int from, int to, double bandwidth, double latency) {
  return {DeviceId(from), DeviceId(to), bandwidth, Seconds(latency), true, -1};
}

}  // namespace sluice
