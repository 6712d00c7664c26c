// Checks a schedule before lowering: ops that are missing, twice or on a wrong rank, replicas without micro-batches,
// ranks that wait for one another.
#pragma once

#include <vector>

#include "harness/pipeline/schedule.h"
#include "harness/program/violation.h"

namespace sluice {

// All violations, in a fixed order; each names the op.
std::vector<Violation> check(const Schedule& schedule, const StageGraph& graph, const Placement& placement);

}  // namespace sluice
