// The environment of a run, in its record.
#pragma once

#include "results/record_parts.h"

namespace sluice {

// Commit, compiler, LibTorch, CPU, cores, GPUs, load: what a reader needs to judge the numbers. Nothing identifies the
// machine or its user.
Environment describe_environment();

}  // namespace sluice
