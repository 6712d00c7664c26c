// Records as flat tables: what identifies a run, its outcome and its metrics.
#pragma once

#include <span>
#include <string>

#include "results/flat_table.h"
#include "results/record.h"

namespace sluice {

// One row a record. An option NAME of a system is the column "option.NAME", empty for systems without it.
FlatTable records_table(std::span<const Record> records);

// One row a rank of a record: its bytes by kind, measured and predicted, and what it sends in an update.
FlatTable ranks_table(std::span<const Record> records);

// One row a point of the learning curves.
FlatTable curves_table(std::span<const Record> records);

}  // namespace sluice
