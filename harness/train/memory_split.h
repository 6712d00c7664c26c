// Memory of a rank by its kinds, as a record keeps it.
#pragma once

#include "harness/pipeline/memory_by_kind.h"
#include "results/record.h"

namespace sluice {

MemorySplit split_of(const MemoryByKind& memory);

}  // namespace sluice
