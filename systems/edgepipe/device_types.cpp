#include "systems/edgepipe/device_types.h"

#include <algorithm>
#include <tuple>

namespace sluice {

static bool alike(const Device& a, const Device& b) {
  const auto key = [](const Device& d) {
    return std::tuple(d.name, d.flops, d.flops_16, d.memory_bandwidth, d.memory.value, d.speed, d.launch.value);
  };
  return key(a) == key(b);
}

static bool reached_alike(const Bandwidths& bandwidths, DeviceId a, DeviceId b) {
  for (std::size_t d = 0; d < bandwidths.devices(); ++d)
    if (DeviceId(d) != a && DeviceId(d) != b &&
        bandwidths.between(a, DeviceId(d)) != bandwidths.between(b, DeviceId(d)))
      return false;
  return true;
}

std::vector<DeviceType> device_types(const Cluster& cluster, const Bandwidths& bandwidths) {
  std::vector<DeviceType> types;
  for (std::size_t d = 0; d < bandwidths.devices(); ++d) {
    const auto same = std::ranges::find_if(types, [&](const DeviceType& type) {
      const DeviceId first = type.devices.front();
      return alike(cluster.devices[first.index()], cluster.devices[d]) && reached_alike(bandwidths, first, DeviceId(d));
    });
    if (same != types.end())
      same->devices.emplace_back(d);
    else
      types.push_back({{DeviceId(d)}});
  }
  return types;
}

}  // namespace sluice
