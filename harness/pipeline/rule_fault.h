// What a weight rule and the system that gives it may disagree about.
#pragma once

#include <string>

#include "harness/pipeline/system.h"

namespace sluice {

// Where they disagree about what an update is, so that the system's throughput would be counted wrong: a sentence;
// otherwise "".
std::string rule_fault(const System& system, const WeightRule& rule);

}  // namespace sluice
