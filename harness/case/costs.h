// Where the costs for planning and for the virtual clock come from.
#pragma once

#include <string>

#include "harness/case/choices.h"
#include "harness/case/profile_store.h"
#include "harness/model/cluster.h"
#include "harness/model/cost_graph.h"
#include "workloads/models/registry.h"

namespace sluice {

// Sources that are not files: computed from the layers' sizes and the device's speed, and measured on this machine. The
// third, the calibrations of devices, is in calibrated.h.
inline const std::string kAnalyticCosts = "analytic", kMeasuredCosts = "profile";
bool is_cost_file(const std::string& source);

// Throws InputError if a file of sluice profile cannot be read, or has other layers than the workload.
void check_cost_file(const std::string& file, const Workload& workload);

// Seconds and bytes of every layer for micro-batches of key.micro_batch samples. source: "analytic", of the cluster's
// first device and of `storage`; "calibrated", of its devices' calibrations for `storage` (calibrated.h); "profile",
// measured on this machine (ProfileStore), now or by an earlier process; or a file of `sluice profile`. A workload that
// is a published profile has its own costs. Throws InputError for a file of another workload or micro-batch.
CostGraph load_costs(const std::string& source, const Workload& workload, const ProfileKey& key, const Cluster& cluster,
                     const Storage& storage, ProfileStore& profiles);

}  // namespace sluice
