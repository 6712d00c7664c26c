// The options of every planner (make_plan.h has their meaning).
#pragma once

#include "harness/base/options.h"

namespace sluice {

// newer: the option is newer than the system's first records, which keep their digests.
inline OptionSpec rank_option(bool newer = false) {
  return {.name = "rank",
          .default_value = "objective",
          .help =
              "which of the planner's plans is taken: the best by its own objective, or, of those "
              "under every limit on the replicas of a stage, the fastest simulated one that fits",
          .choices = {"objective", "simulated"},
          .in_digest_unless_default = newer};
}

inline OptionSpec search_seconds_option() {
  return {"search_seconds", "60", "processor time after which the search ends with the best so far"};
}

}  // namespace sluice
