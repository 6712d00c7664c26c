// What lowering added: both ends of every channel agree, every input is there when it is read, collectives meet, weight
// versions exist when they are read, sharded weights are gathered then, stashes are where they are needed. Nothing runs
// on either clock that does not
// check.
#pragma once

#include <vector>

#include "harness/program/program.h"
#include "harness/program/violation.h"

namespace sluice {

// All violations, in a fixed order; each names the instruction.
std::vector<Violation> check(const Program& program);

// The lowered program, once it is known that its ranks do not wait for ever for one another: throws InputError with the
// first violation. lower() makes no program that fails but where collectives stand between the ops (stages are sharded,
// or replicas step without a flush) or stashes move, so that only such a one is looked at.
Program checked(Program program);

}  // namespace sluice
