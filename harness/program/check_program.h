// Checks what lowering added: both ends of every channel agree, every input is ready when it is read, all ranks of a
// collective join it, weight versions exist when they are read, sharded weights are gathered then, and stashes are
// where they are needed. A program that fails the check is never run, on either clock.
#pragma once

#include <vector>

#include "harness/program/program.h"
#include "harness/program/violation.h"

namespace sluice {

// All violations with buffered sends, in a fixed order; each names the instruction.
std::vector<Violation> check(const Program& program);

// Violations of the messages alone: on every channel the first one out of place; if there is none, the cycle of ranks
// that deadlock (wait_cycle.h). Every message must have its channel, with its rank at the right end.
std::vector<Violation> check_messages(const Program& program, SendEnd sends, InstructionText text = plain_text);

// Returns the lowered program after a check for deadlocks; throws InputError with the first violation. lower() can only
// make such a program if collectives are between the ops (stages are sharded, or replicas step without a flush) or
// stashes move, so others are not checked.
Program checked(Program program);

}  // namespace sluice
