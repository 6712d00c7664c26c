// The output of `sluice list NAME` and `sluice list FILE` for one workload or one file.
#pragma once

#include <string>

namespace sluice {

class Json;
struct Workload;

// {"name": ..., "parameters": ..., ...}: its entry in the list of workloads.
Json summary_of(const Workload& workload);
// The same with inputs, kinds of layers, FLOP and bytes.
Json describe_workload(const Workload& workload);

// For a model, workload, costs, sweep or cluster file. Throws InputError as its reader does.
Json describe_file(const std::string& path);

}  // namespace sluice
