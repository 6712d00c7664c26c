// Flat tables for spreadsheets and data frames: CSV after RFC 4180, UTF-8, a header line, "." as the decimal point,
// empty for what was not measured.
#pragma once

#include <span>
#include <string>

#include "results/record.h"

namespace sluice {

// One line a record: what identifies the run, its outcome, and its metrics.
std::string records_csv(std::span<const Record> records);

// One line a point of the learning curves.
std::string curves_csv(std::span<const Record> records);

}  // namespace sluice
