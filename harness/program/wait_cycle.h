// A deadlock in readable form: the ranks that wait for one another, in order.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/program/violation.h"

namespace sluice {

// Why a rank does not run its next op or instruction.
struct Wait {
  int rank = -1;     // the rank that it waits for; -1: it is not blocked
  std::string at;    // its place: "4F7"
  std::string need;  // what of `rank` it waits for: "3F7"; "": the same collective
};

// The first cycle of at least two ranks, from its lowest one: "ranks wait for one another in a cycle: rank 0 at 4F7 for
// 3F7 of rank 3, rank 3 at 3B3 for 4B3 of rank 0". nullopt: no cycle. Linear in the ranks.
std::optional<Violation> wait_cycle(std::size_t ranks, const std::function<Wait(std::size_t rank)>& wait_of);

}  // namespace sluice
