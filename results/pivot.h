// One metric of many runs in two dimensions: a row for each value of one setting, a column for each of another.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/comparison.h"
#include "results/flat_table.h"

namespace sluice {

struct PivotOptions {
  std::string rows, columns;   // settings of a record, or options of systems: "system", "microbatches", "recompute"
  std::string metric;          // of metrics() (fields.h): medians over the seeds are shown
  std::string caption, label;  // LaTeX: with either, a table around the tabular
  bool bold = false;           // LaTeX: the best of each column
};

struct PivotTable {
  struct Cell {
    std::string text;  // "" where nothing was run; in the digits of its column; an outcome where there is no value
    bool is_number = false;
    bool best = false;  // of its column, with all that show the same number
  };
  std::string row_heading, column_heading;
  std::string unit, measure;               // of all numbers: "GiB", and "peak in GiB"
  std::vector<std::string> rows, columns;  // values of the settings, systems by their titles
  std::vector<std::vector<Cell>> cells;    // [row][column]
};

// A column's numbers have equally many decimals, so that its smallest has three significant digits, or its largest
// five. Throws InputError for a setting that no run has, and where two runs share a cell.
PivotTable pivot(std::span<const Comparison> comparisons, const PivotOptions& options);

TextTable to_text_table(const PivotTable& table);
// Of booktabs and siunitx, whose S columns align numbers by their decimal points.
std::string to_latex(const PivotTable& table, const PivotOptions& options);

}  // namespace sluice
