// Parts of check(Program) (check_program.h) in files of their own.
#pragma once

#include <vector>

#include "harness/program/program.h"
#include "harness/program/violation.h"

namespace sluice {

// Checks gathered copies, and gradients that wait for a reduce-scatter, of one rank's sharded stages, in program order.
void check_sharding(const Program& program, Rank rank, std::vector<Violation>& found);

// Checks the places of one rank's stashes, in program order.
void check_stash_moves(const Program& program, Rank rank, std::vector<Violation>& found);

// Runs the program without time (its data, messages and collectives). Finds inputs that come too late, and deadlocks,
// each as its cycle of ranks. The program's channels must have passed their check. Linear in the instructions.
void run_without_time(const Program& program, SendEnd sends, InstructionText text, std::vector<Violation>& found);

}  // namespace sluice
