// The staleness of a program, which a record compares with the paper's.
#pragma once

#include <vector>

#include "harness/program/program.h"

namespace sluice {

// Per rank: max number of updates of a stage between the version that a micro-batch's forward read and the update that
// its gradient is part of. 0 on a rank without forwards.
std::vector<int> staleness_of(const Program& program);

}  // namespace sluice
