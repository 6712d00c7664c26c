// The contract check of a system, in a separate process.
#pragma once

#include <string>

#include "harness/pipeline/system.h"

namespace sluice {

struct CheckOutcome {
  bool holds = false;
  std::string text;  // every fault with its drawing, rejections with their messages, notes, a line of counts
};

// seconds: per problem; after it, a loop counts as endless. Throws RunError if no process can be made.
CheckOutcome check_system(const System& system, double seconds);

}  // namespace sluice
