#include "harness/pipeline/rule_fault.h"

namespace sluice {

std::string rule_fault(const System& system, const WeightRule& rule) {
  if (rule.synchronous() != system.synchronous)
    return system.synchronous ? "its weight rule updates without a flush, but .synchronous is not false"
                              : ".synchronous is false, but its weight rule updates at a flush";
  if (rule.accumulate != 1 && !system.accumulates)
    return "its weight rule makes one update of " + std::to_string(rule.accumulate) +
           " micro-batches, but .accumulates is not true: every micro-batch would count as an update";
  return "";
}

}  // namespace sluice
