// The tables of a study, filled from its records.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plots/study.h"
#include "results/compare.h"

namespace sluice {

// Runs that differ in their seed alone, with the fields by which conditions choose them.
struct StudyRun {
  ComparisonRow row;
  std::map<std::string, std::string> fields;  // of a record's line by dotted name: "options.partition"; no arrays
};
std::vector<StudyRun> study_runs(std::span<const Record> records);  // of those whose purpose is to measure

bool matches(const StudyRun& run, const Conditions& where);

struct FilledCell {
  std::string text;             // "-" where no run matches, an outcome ("out of memory") where none has the metric
  std::optional<double> value;  // in the metric's unit
  std::map<std::uint64_t, double> by_seed = {};  // the values of single seeds
};
struct FilledLine {
  std::vector<std::string> titles;  // one an axis
  std::vector<FilledCell> cells;    // one a column
};
struct FilledTable {
  StudyTable description;
  std::vector<FilledLine> lines;
};

FilledTable fill(const StudyTable& table, std::span<const StudyRun> runs);

// The place of a column by its heading. Throws std::out_of_range.
std::size_t column_index(const StudyTable& table, const std::string& heading);

// "1.00 (DLRM, 16) to 1.28 (Uno, 32)"; "-" where no line has a value.
std::string found_text(const TableFigure& figure, const FilledTable& table);

}  // namespace sluice
