// The rows of a comparison, from records that differ only in their seeds, and the options in their labels.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "results/comparison.h"

namespace sluice {

// Options as text: of each row, and those that all rows share, for the heading of their table.
struct TellingOptions {
  std::vector<std::string> of_rows;  // "recompute=all variant=h1"; "" for none
  std::string shared;
};

// For records that each stand for a row: every option that differs from its system's default or among the system's
// rows. For a system that is not in this build, defaults are not known: only the options that differ among its rows.
TellingOptions telling_options(std::span<const Record* const> records);

// One row per set of records that differ only in their seeds, labelled by their telling options. The relation to a
// baseline is not set.
struct LabelledRows {
  std::vector<ComparisonRow> rows;
  std::string shared_options;
};
// `take` is called for each record that a row keeps.
LabelledRows comparison_rows(
    std::span<const Record* const> records,
    const std::function<Record(const Record&)>& take = [](const Record& r) { return r; });

// The reason of a run without a result, with the rank that failed; "" if it has one.
std::string why_failed(const Record& record);

// Label for readers: the title of its system (system_style.h) with its options: "Zero bubble variant=h1".
std::string title_of(const ComparisonRow& row);
std::string title_of(const std::string& system, const std::string& options);
// Of every row, the options in its label and those in labels of its system in other comparisons, as text: rows with the
// same settings have the same text everywhere, as the lines of a chart over rank counts need it. Left out are options
// that differ among the rows without them in their labels, such as a default that grows with the ranks.
std::map<const ComparisonRow*, std::string> options_across(std::span<const Comparison> comparisons);
// provenance_note() for the systems of these records that are in this build, with only the parts that the records'
// options use.
std::string provenance_of(std::span<const Record> records);

}  // namespace sluice
