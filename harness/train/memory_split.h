// Memory of a rank by its kinds, as a record keeps it.
#pragma once

#include "harness/exec/session.h"
#include "harness/sim/memory.h"
#include "results/record.h"

namespace sluice {

MemorySplit split_of(const PeakMemory& measured);
MemorySplit split_of(const MemoryPoint& predicted);  // buffers are not predicted: 0

}  // namespace sluice
