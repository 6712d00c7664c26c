// Clusters that tests build link by link, and costs.
#pragma once

#include <utility>
#include <vector>

#include "harness/model/cluster.h"
#include "harness/sim/costs.h"

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

// Equal stages; seconds.
inline Costs uniform_costs(int stages, double forward, double input_gradient, double weight_gradient) {
  StageCost cost{Seconds(forward), Seconds(input_gradient), Seconds(weight_gradient), Seconds(0), Bytes(0)};
  cost.split_weight_gradient = cost.weight_gradient;
  return {std::vector<StageCost>(static_cast<std::size_t>(stages), cost), {}, {}};
}

}  // namespace sluice
