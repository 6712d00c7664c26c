// One metric of many runs in two dimensions: a row for each value of one setting, a column for each value of another.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/comparison.h"
#include "results/flat_table.h"

namespace sluice {

struct PivotOptions {
  std::string rows, columns;   // settings of a record, or options of systems: "system", "microbatches", "recompute"
  std::string metric;          // of metrics() (fields.h); cells are medians over the seeds
  std::string caption, label;  // LaTeX: with either, a table around the tabular
  bool bold = false;           // LaTeX: the best of each column
};

struct PivotTable {
  struct Cell {
    std::string text;  // "" if nothing was run; with the decimals of its column; an outcome if there is no value
    bool is_number = false;
    bool best = false;  // of its column, including all equal texts
  };
  std::string row_heading, column_heading;
  std::string unit, measure;               // of all numbers: "GiB", and "peak in GiB"
  std::vector<std::string> rows, columns;  // values of the settings, systems by their titles
  std::vector<std::vector<Cell>> cells;    // [row][column]
};

// All numbers of a column have the same number of decimals: three significant digits for the smallest, or five for the
// largest. Throws InputError for a setting that no run has, and if two runs share a cell.
PivotTable pivot(std::span<const Comparison> comparisons, const PivotOptions& options);

TextTable to_text_table(const PivotTable& table);
// With booktabs and siunitx, whose S columns align numbers by their decimal points.
std::string to_latex(const PivotTable& table, const PivotOptions& options);

}  // namespace sluice
