// The options that every planner has (make_plan.h says what they do).
#pragma once

#include "harness/base/options.h"

namespace sluice {

// newer: than the first records of the system, which keep their digests.
inline OptionSpec rank_option(bool newer = false) {
  return {.name = "rank",
          .default_value = "objective",
          .help =
              "which of the planner's plans is taken: the best by its own objective, as in the paper, or, of those "
              "under every limit on the replicas of a stage, the fastest simulated one that fits",
          .choices = {"objective", "simulated"},
          .in_digest_unless_default = newer};
}

inline OptionSpec search_seconds_option() {
  return {"search_seconds", "60", "processor time after which the search ends with the best so far"};
}

}  // namespace sluice
