// Published profiles: the measurements that papers' authors publish with their planners, read into CostGraphs with
// their unit traps handled. The format is recognised by content, not by the file's name:
//   PipeDream graph text   "node1 -- Conv2d(...) -- forward_compute_time=..., ..." and edge lines
//   Piper JSON             "mbsInBatch", "nodes" with "TMPCs"
//   dnn-partitioning JSON  "maxFPGAs", "nodes" with "fpgaLatency" (operator_profile.h reads all of it)
//   PipeEdge YAML          models.yml with device_types.yml; "FILE#MODEL" picks a model
// Every reader throws InputError with file, line (or JSON pointer) and reason.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/model/cost_graph.h"

namespace sluice {

class Json;

// published: numbers as the file has them, for reproducing what the authors' program prints, even where it adds
// milliseconds to seconds. physical: seconds and bytes throughout.
enum class ProfileUnits { physical, published };

struct PublishedProfile {
  CostGraph costs;
  std::vector<std::string> warnings;  // what was assumed, mended or left out; one sentence each
  std::int64_t microbatches = 0;      // of a batch, as published; 0: the file does not say
};

// The path of a file of workloads/profiles/published, e.g. "piper/gnmt.json"; whether there is one, its reader says.
std::string published_profile_path(const std::string& file);

// Whether `path` (with or without "#MODEL") is a file, as opposed to the name of a listed workload.
bool is_profile_path(const std::string& path);

PublishedProfile load_profile(const std::string& path, ProfileUnits units = ProfileUnits::physical);

// The readers, by format. `text`: the file's content.
// A number of bytes as a profile gives it. Throws InputError at `where`: it is no number that a machine has.
Bytes rounded_bytes(double value, const std::string& where);

PublishedProfile read_pipedream_profile(const std::string& text, const std::string& file);
PublishedProfile read_piper_profile(const Json& json, const std::string& file, ProfileUnits units);
PublishedProfile read_operator_profile(const Json& json, const std::string& file, ProfileUnits units);
PublishedProfile read_pipeedge_profile(const std::string& path, const std::string& model);

// The nodes 0 .. names.size() - 1 with every source before its readers; where several nodes are possible next, the one
// that is first in the file. `edges`: source and reader. Throws InputError that names a node of a cycle.
std::vector<int> topological_order(const std::vector<std::pair<int, int>>& edges, const std::vector<std::string>& names,
                                   const std::string& file);

}  // namespace sluice
