// What lowering added: both ends of every channel agree, every input is there when it is read, collectives meet, weight
// versions exist when they are read, sharded weights are gathered then, stashes are where they are needed. Nothing runs
// on either clock that does not check.
#pragma once

#include <vector>

#include "harness/program/program.h"
#include "harness/program/violation.h"

namespace sluice {

// All violations with buffered sends, in a fixed order; each names the instruction.
std::vector<Violation> check(const Program& program);

// Those of the messages alone: on every channel the first one out of place; if there is none, the cycle of ranks that
// wait for one another for ever (wait_cycle.h). Every message must have its channel, with its rank at the right end.
std::vector<Violation> check_messages(const Program& program, SendEnd sends, InstructionText text = plain_text);

// The lowered program, once it is known that its ranks do not wait for ever for one another: throws InputError with the
// first violation. lower() makes no program that fails but where collectives stand between the ops (stages are sharded,
// or replicas step without a flush) or stashes move, so that only such a one is looked at.
Program checked(Program program);

}  // namespace sluice
