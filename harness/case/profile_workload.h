// A workload that is a published profile: `sluice plan --workload FILE`. It has costs but no layers to run, so it
// supports only planners and the virtual clock's timing.
#pragma once

#include <string>
#include <vector>

#include "harness/exec/session.h"
#include "harness/model/cost_graph.h"
#include "harness/pipeline/plan.h"
#include "harness/sim/memory.h"
#include "workloads/models/registry.h"

namespace sluice {

struct ProfileWorkload {
  Workload workload;  // no layers; one batch as published, or 32 micro-batches
  CostGraph costs;
  std::vector<std::string> warnings;
  std::string digest;  // of its files' content
};

// Null unless `name` is a file (workloads/profiles/profile.h has the formats) and not a workload file. Read once per
// process. costs: "raw" keeps the file's numbers as the authors' program uses them; otherwise they become seconds and
// bytes. Throws InputError.
const ProfileWorkload* profile_workload(const std::string& name, const std::string& costs);

inline bool is_profile_workload(const Workload& workload) { return workload.model.layers.empty(); }

// The listed workload of that name, that of a workload file, or the published profile. Throws InputError at `where`.
const Workload& find_workload_or_profile(const std::string& name, const std::string& costs, const std::string& where);

// Digest of a workload file's content, which separates files of one name; empty: the workload is not a file.
std::string workload_digest(const Workload& workload);

}  // namespace sluice
