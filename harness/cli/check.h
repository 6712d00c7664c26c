// The contract of a system, held in a process of its own.
#pragma once

#include <string>

#include "harness/pipeline/system.h"

namespace sluice {

struct CheckOutcome {
  bool holds = false;
  std::string text;  // every fault with its drawing, rejections with what they say, notes, a line of counts
};

// seconds: for one problem, after which its loop is taken to be endless. Throws RunError where no process can be made.
CheckOutcome check_system(const System& system, double seconds);

}  // namespace sluice
