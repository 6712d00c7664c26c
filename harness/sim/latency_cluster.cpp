#include "harness/sim/latency_cluster.h"

#include <limits>

namespace sluice {

Cluster latency_cluster(int ranks, Seconds latency) {
  Cluster cluster{
      .name = "uniform", .source = "", .devices = std::vector<Device>(static_cast<std::size_t>(ranks)), .links = {}};
  for (Device& device : cluster.devices) device.host_bandwidth = std::numeric_limits<double>::infinity();
  cluster.all_to_all.emplace();
  cluster.all_to_all->bandwidth = std::numeric_limits<double>::infinity();
  cluster.all_to_all->latency = latency;
  return cluster;
}

std::vector<DeviceId> identity_devices(int ranks) {
  std::vector<DeviceId> devices;
  for (int r = 0; r < ranks; ++r) devices.emplace_back(r);
  return devices;
}

}  // namespace sluice
