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

// Runs that differ only in their seed, with the fields that conditions use.
struct StudyRun {
  ComparisonRow row;
  std::map<std::string, std::string> fields;  // of a record's line by dotted name: "options.partition"; no arrays
};
std::vector<StudyRun> study_runs(std::span<const Record> records);  // whose purpose is to measure

bool matches(const StudyRun& run, const Conditions& where);

struct FilledCell {
  std::string text;             // "-" if no run matches, an outcome ("out of memory") if none has the metric
  std::optional<double> value;  // in the metric's unit
  std::map<std::uint64_t, double> by_seed = {};  // the values of single seeds
};
struct FilledLine {
  std::vector<std::string> titles;  // one per axis
  std::vector<FilledCell> cells;    // one per column
};
struct FilledTable {
  StudyTable description;
  std::vector<FilledLine> lines;
};

FilledTable fill(const StudyTable& table, std::span<const StudyRun> runs);

// The index of a column by its heading. Throws std::out_of_range.
std::size_t column_index(const StudyTable& table, const std::string& heading);

// "1.00 (DLRM, 16) to 1.28 (Uno, 32)"; "-" if no line has a value.
std::string found_text(const TableFigure& figure, const FilledTable& table);

}  // namespace sluice
