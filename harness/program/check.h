// The checker: everything that can be wrong with a schedule before it runs. Nothing runs that does
// not check. Violations are returned, all of them, in a fixed order; each names the op.
#pragma once

#include <string>
#include <vector>

#include "harness/pipeline/schedule.h"
#include "harness/program/program.h"

namespace sluice {

struct Violation {
  enum class Kind {
    missing_op,  // a forward, backward or weight gradient that no rank runs
    duplicate_op,
    wrong_rank,       // an op on a rank that does not hold its stage, or out of range
    wrong_order,      // a backward before its forward, a W before its I, on one rank; half a pair
    deadlock,         // ranks wait for one another; the blocked op is named
    missing_version,  // a weight version that does not exist (yet, or any more) when it is read
    not_gathered,     // weights of a sharded stage read or freed that are not there, or still there
                      // when they are gathered; gradients that no reduce-scatter sums before a step
  } kind;
  std::string text;  // "rank 1: 1B0 is blocked: it waits for 2B0, which comes after 2F4 on rank 2"
};

std::vector<Violation> check(const Schedule& schedule, const StageGraph& graph, const Placement& placement);

// What lowering added: both ends of every channel agree, every input is there when it is read,
// collectives meet, versions exist when read, sharded weights are gathered then. For hand-written or
// changed programs; lower() makes none that fails.
std::vector<Violation> check(const Program& program);

}  // namespace sluice
