// Where the costs that planning and the virtual clock use come from.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/case/choices.h"
#include "harness/model/cluster.h"
#include "harness/model/cost_graph.h"
#include "workloads/models/registry.h"

namespace sluice {

// The two sources that are no files: computed from the layers' sizes and the device's speed, and measured on this
// machine.
inline const std::string kAnalyticCosts = "analytic", kMeasuredCosts = "profile";
bool is_cost_file(const std::string& source);

// Seconds and bytes of every layer for micro-batches of `micro_batch` samples. source: "analytic", of `device`;
// "profile", measured now on this machine's CPU or GPU (measured_on) and kept for the rest of the process; or a file of
// `sluice profile`. Of a workload that is a published profile: its own costs. Throws InputError: a file that is of
// another workload or micro-batch.
CostGraph load_costs(const std::string& source, const Workload& workload, std::int64_t micro_batch,
                     const Device& device, DeviceKind measured_on);

// What "profile" has measured in this process so far, for other processes to plan with the same.
nlohmann::json measured_costs();
void adopt_measured_costs(const nlohmann::json& measured);

}  // namespace sluice
