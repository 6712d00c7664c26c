// Comparing: records grouped so that only like is compared with like, aggregated over seeds, set in relation to a
// baseline, and shown as a terminal table or JSON. The charts draw the same rows.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "results/comparison.h"

namespace sluice {

// Reads "throughput", "memory", "time_to_accuracy" or "final_metric". Throws InputError.
CompareMetric parse_compare_metric(const std::string& text);

// One comparison for each (workload, cluster, clock, cost source, batch, ranks, duration, optimizer), in this order, of
// the records whose purpose is to measure. Runs at different learning rates are never in one comparison, and neither
// are tuned ones and those at a rate that all share. Throws InputError if the baseline that was asked for is in none of
// the records.
std::vector<Comparison> compare(std::span<const Record> records, const CompareOptions& options = {});

// For a terminal: one aligned table a comparison, with a legend of its marks.
std::string to_table(std::span<const Comparison> comparisons, const CompareOptions& options = {});

nlohmann::json to_json(std::span<const Comparison> comparisons);

// "wall clock" or "virtual clock, analytic costs".
std::string clock_text(const Comparison& comparison);

}  // namespace sluice
