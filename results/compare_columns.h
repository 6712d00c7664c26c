// The columns of a comparison's table, each declared once: its name on the command line, its heading, its cells, and
// what it is sorted by.
#pragma once

#include <string>
#include <vector>

#include "results/comparison.h"
#include "results/flat_table.h"

namespace sluice {

// What --metric may name: metrics() (fields.h), and the two tables of their own (comparison.h).
std::vector<std::string> compare_metric_names();
// The metric of that name, or former name, that sorts rows. Throws InputError.
const Field& compare_metric(const std::string& name);

// Names for --columns and --sort.
std::vector<std::string> compare_column_names();
// Throws InputError at `where` for a name that is none of them.
void check_compare_columns(const std::vector<std::string>& names, const std::string& where);

// The table of a comparison: the columns that are asked for, or the usual ones without those that would be empty.
TextTable compare_columns(const Comparison& comparison, const CompareOptions& options);

// Whether `a` stands before `b` in a table that is sorted by a column ("-name": falling); rows without a value last.
bool comes_first(const ComparisonRow& a, const ComparisonRow& b, const Comparison& comparison, const std::string& sort);

}  // namespace sluice
