// Comparisons: records grouped by equal settings, aggregated over seeds, related to a baseline, and shown as a terminal
// table or JSON. The charts draw the same rows.
#pragma once

#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "results/comparison.h"
#include "results/flat_table.h"

namespace sluice {

// The settings that all rows of a comparison share: workload, cluster, clock, cost source, batch, ranks, duration,
// optimizer. A comparison never mixes clocks, costs from a formula with costs from a profile, durations, or learning
// rates: see optimizer_text.
using ComparisonGroup =
    std::tuple<std::string, std::string, std::string, std::string, std::int64_t, int, std::string, std::string>;
ComparisonGroup comparison_group(const Record& record);

// One comparison for each (workload, cluster, clock, cost source, batch, ranks, duration, optimizer), in this order, of
// the records whose purpose is to measure. Runs at different learning rates are never in one comparison, and neither
// are tuned rates and one rate for all systems. Throws InputError if no record is of the requested baseline.
std::vector<Comparison> compare(std::span<const Record> records, const CompareOptions& options = {});
std::vector<Comparison> compare(std::vector<Record>&& records, const CompareOptions& options = {});  // without copies

// One table per comparison, with a legend of its marks: aligned for a terminal, Markdown or LaTeX.
enum class TableForm { text, markdown, latex };
std::string to_table(std::span<const Comparison> comparisons, const CompareOptions& options = {},
                     TableForm form = TableForm::text);

// All rows of all comparisons as one flat table; its first columns are the settings that separate the comparisons.
FlatTable to_flat_table(std::span<const Comparison> comparisons);

Json to_json(std::span<const Comparison> comparisons);

// "wall clock" or "virtual clock, analytic costs".
std::string clock_text(const Comparison& comparison);

}  // namespace sluice
