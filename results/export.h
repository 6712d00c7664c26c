// Records as flat tables: identity, outcome and metrics of each run.
#pragma once

#include <span>
#include <string>

#include "results/flat_table.h"
#include "results/record.h"

namespace sluice {

// One row per record. An option NAME of a system is the column "option.NAME", empty for systems without it.
FlatTable records_table(std::span<const Record> records);

// One row per rank of a record: its bytes by kind, measured and predicted, and the bytes that it sends per update.
FlatTable ranks_table(std::span<const Record> records);

// One row per point of the learning curves.
FlatTable curves_table(std::span<const Record> records);

}  // namespace sluice
