// dnn-partitioning's JSON in full: forward and backward operators, colours, CPU latencies. A CostGraph (profile.h)
// keeps one layer per group of operators that share a device (group_operators() in harness/model/operator_graph.h).
#pragma once

#include <string>

#include "harness/model/operator_graph.h"
#include "workloads/profiles/profile.h"

namespace sluice {

class Json;

// Numbers as published: latencies in milliseconds; send costs in seconds in the throughput layer graphs, in
// milliseconds in the others. Throws InputError with file and JSON pointer: unknown nodes, ids twice, cycles,
// negative numbers.
OperatorGraph read_operator_graph(const Json& json, const std::string& file);

}  // namespace sluice
