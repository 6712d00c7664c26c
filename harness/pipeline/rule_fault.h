// Contradictions between a weight rule and the system that gives it.
#pragma once

#include <string>

#include "harness/pipeline/system.h"

namespace sluice {

// A sentence if the rule and the system differ about what an update is, which would make the system's throughput wrong;
// otherwise "".
std::string rule_fault(const System& system, const WeightRule& rule);

}  // namespace sluice
