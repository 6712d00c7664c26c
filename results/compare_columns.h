// The columns of a comparison's table, each declared once: its name on the command line, its heading, its cells, and
// its sort key.
#pragma once

#include <string>
#include <vector>

#include "results/comparison.h"
#include "results/flat_table.h"

namespace sluice {

// Values of --metric: metrics() (fields.h), and the two with tables of their own (comparison.h).
std::vector<std::string> compare_metric_names();
// The metric with that name, or former name, for sorting rows. Throws InputError.
const Field& compare_metric(const std::string& name);

// Names for --columns and --sort.
std::vector<std::string> compare_column_names();
// Throws InputError at `where` for an unknown name.
void check_compare_columns(const std::vector<std::string>& names, const std::string& where);

// The table of a comparison: the requested columns, or the default ones without empty columns.
TextTable compare_columns(const Comparison& comparison, const CompareOptions& options);

// Whether `a` comes before `b` in a table sorted by a column ("-name": descending); rows without a value are last.
bool comes_first(const ComparisonRow& a, const ComparisonRow& b, const Comparison& comparison, const std::string& sort);

}  // namespace sluice
