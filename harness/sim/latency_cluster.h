// A cluster in which nothing but the latency of messages counts: `sluice schedule`, the machine we are on, and tests.
#pragma once

#include <vector>

#include "harness/model/cluster.h"

namespace sluice {

// `ranks` devices; a message between any two takes `latency` and no time per byte, a copy to the host none.
Cluster latency_cluster(int ranks, Seconds latency);

// Rank r on device r.
std::vector<DeviceId> identity_devices(int ranks);

}  // namespace sluice
