// The workloads that have names.
#pragma once

#include <span>
#include <string>

#include "workloads/models/workload.h"

namespace sluice {

// Those of files NAME_workload.cpp and NAME.json in this folder come last.
std::span<const Workload> all_workloads();
// The listed workload of that name, or that of a workload file (workload_file.h), which is read once a process. Throws
// InputError with a suggestion.
const Workload& find_workload(const std::string& name, const std::string& where = "--workload");

}  // namespace sluice
