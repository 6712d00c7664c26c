// Differences between two sets of records of the same cases.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/flat_table.h"
#include "results/record.h"

namespace sluice {

enum class Change { same, better, worse, missing, fresh };  // fresh: only in the new set

struct RegressionRow {
  std::string workload, clock, label;  // of the comparison and its row
  int ranks = 0;
  std::string metric;  // "samples/s", "peak bytes", "bubble", "sent bytes", "final accuracy", "outcome"
  std::optional<double> before, after;
  Change change = Change::same;
  std::string note;  // why it counts, or not: "the ranges of 5 seeds overlap"
};

// Compares rows of both sets with the same workload, cluster, clock, costs, batch, ranks, length, optimizer, system and
// options. A metric is worse (or better) if its median changed by more than `tolerance`, as a share of its old value.
// For measured times, chance must not explain the change: the ranges of at least five seeds, or else the 95 % intervals
// of the steps, do not overlap. Memory, bubble and bytes are exact on the virtual clock and need no such test.
std::vector<RegressionRow> regressions(std::span<const Record> before, std::span<const Record> after, double tolerance);

bool has_regression(const std::vector<RegressionRow>& rows);  // one is worse or missing

TextTable regression_table(const std::vector<RegressionRow>& rows, bool with_same);
FlatTable regression_flat_table(const std::vector<RegressionRow>& rows);
const char* to_text(Change change);

}  // namespace sluice
