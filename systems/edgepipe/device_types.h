// The devices of a cluster by type, as EdgePipe's planner sees them: interchangeable ones are of one type.
#pragma once

#include <vector>

#include "harness/model/cluster.h"
#include "harness/plan/machines.h"

namespace sluice {

struct DeviceType {
  std::vector<DeviceId> devices;  // in the cluster's order
};

// Two of the first `devices` devices are of one type if they are alike in all that a cluster says of a device, and as
// fast to reach from every other one. In the order of their first devices.
std::vector<DeviceType> device_types(const Cluster& cluster, const Bandwidths& bandwidths);

}  // namespace sluice
