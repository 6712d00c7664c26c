// Memory of a rank by kind, in the form of a record.
#pragma once

#include "harness/pipeline/memory_by_kind.h"
#include "results/record.h"

namespace sluice {

MemorySplit split_of(const MemoryByKind& memory);

}  // namespace sluice
