// A fault that a checker found: check_schedule.h checks schedules, check_program.h programs.
#pragma once

#include <string>
#include <vector>

namespace sluice {

struct Violation {
  enum class Kind {
    missing_op,  // a forward, backward or weight gradient that no rank runs
    duplicate_op,
    wrong_rank,       // an op on a rank that does not hold its stage, or out of range
    wrong_order,      // a backward before its forward, a W before its I, on one rank; half a pair
    deadlock,         // ranks wait for one another; the text names the blocked op
    missing_version,  // a weight version that does not exist (yet, or any more) when it is read
    not_gathered,     // weights of a sharded stage read or freed without a gather, or gathered twice; gradients that no
                      // reduce-scatter sums before a step
    stash_elsewhere,  // a stash that is not where a move or a backward needs it
  } kind;
  std::string text;  // "rank 1: 1B0 is blocked: it waits for 2B0, which comes after 2F4 on rank 2"
};

inline std::string on_rank(std::size_t rank) { return "rank " + std::to_string(rank) + ": "; }

}  // namespace sluice
