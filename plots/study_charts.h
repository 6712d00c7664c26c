// The pictures of a study: one of the report's charts of some of its records, or bars of a table's columns.
#pragma once

#include <span>

#include "plots/charts.h"
#include "plots/study.h"
#include "plots/study_tables.h"

namespace sluice {

// Both return a chart with a null spec if there is nothing to show.
Chart study_chart(const ComparisonPicture& picture, std::span<const Record> records);
Chart study_chart(const TablePicture& picture, const FilledTable& table);

}  // namespace sluice
