// The rows of a comparison, from records that differ in their seeds, and the options that their labels show.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "results/comparison.h"

namespace sluice {

// Options in words: of each row, and those of all rows, which the heading of their table says.
struct TellingOptions {
  std::vector<std::string> of_rows;  // "recompute=all variant=h1"; "" for none
  std::string shared;
};

// Of records that each stand for a row: every option that differs from the default of its system, or among the rows of
// its system. Of a system that this build does not have the defaults are not known: only what differs among its rows.
TellingOptions telling_options(std::span<const Record* const> records);

// Rows, one for the records that differ in their seed alone, labelled by their telling options. The relation to a
// baseline is left open.
struct LabelledRows {
  std::vector<ComparisonRow> rows;
  std::string shared_options;
};
// `take` is called for each record that a row keeps.
LabelledRows comparison_rows(
    std::span<const Record* const> records,
    const std::function<Record(const Record&)>& take = [](const Record& r) { return r; });

// For people: the title of its system (system_style.h) with its options: "Zero bubble variant=h1".
std::string title_of(const ComparisonRow& row);
// provenance_note() of the systems of these records that this build has, of their parts only those that the records'
// options chose.
std::string provenance_of(std::span<const Record> records);

}  // namespace sluice
