// Staleness as a program really has it, for a record to compare with what a paper promises.
#pragma once

#include <vector>

#include "harness/program/program.h"

namespace sluice {

// Per rank: the most updates of a stage between the version that a micro-batch's forward read and the update that its
// gradient is part of. 0 on a rank without forwards.
std::vector<int> staleness_of(const Program& program);

}  // namespace sluice
