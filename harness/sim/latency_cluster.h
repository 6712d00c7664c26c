// A cluster whose messages cost only their latency: for `sluice schedule`, this machine, and tests.
#pragma once

#include <vector>

#include "harness/model/cluster.h"

namespace sluice {

// `ranks` devices; a message between any two takes `latency` and no time per byte, a copy to the host none.
Cluster latency_cluster(int ranks, Seconds latency);

// Rank r on device r.
std::vector<DeviceId> identity_devices(int ranks);

}  // namespace sluice
