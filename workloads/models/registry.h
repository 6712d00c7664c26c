// The workloads that have names.
#pragma once

#include <span>
#include <string>

#include "workloads/models/workload.h"

namespace sluice {

// Workloads of files NAME_workload.cpp and NAME.json in this folder come last.
std::span<const Workload> all_workloads();
// The listed workload with that name, or that of a workload file (workload_file.h), which a process reads once. Throws
// InputError with a suggestion.
const Workload& find_workload(const std::string& name, const std::string& where = "--workload");

}  // namespace sluice
