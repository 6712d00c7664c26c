// Systems that a few seeds cannot tell apart. The rule: two systems differ on a metric if each has at least five seeds
// and their ranges (smallest to largest value) do not touch. If they were equal, two groups of five values would be
// separated in 2 of 252 orders, by chance in 0.8 % of the pairs; more seeds make it rarer. The whiskers of the charts
// show the same rule: bars whose whiskers overlap are not told apart.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/comparison.h"

namespace sluice {

inline constexpr std::size_t kSeedsToTell = 5;

// The values of one system on one metric. A run that diverged or never reached the target has an infinite value, worse
// than every number.
struct SeedValues {
  std::string label;
  std::vector<double> values;  // one per seed
};

// `alike` holds the largest sets in which every two ranges overlap, ordered by their values: two systems are in a
// common set if and only if they are not told apart.
Verdict tell_apart(const std::string& metric, std::span<const SeedValues> systems);

// How a row is called in sentences: by its label, or by title_of() (comparison_rows.h).
using RowName = std::string (*)(const ComparisonRow& row);
inline std::string label_of(const ComparisonRow& row) { return row.label; }

// On throughput (wall clock only: the virtual clock has places), on the time to accuracy (if there is a target), and on
// the final metric (if there is one).
std::vector<Verdict> verdicts(const Comparison& comparison, RowName name = label_of);

// On the virtual clock, the names of the fastest row of each asynchronous system, or of each other one, fastest first.
// Rows that share a place (model_error.h) are in one list. Rows that miss their target in every seed have no place.
std::vector<std::vector<std::string>> simulated_places(const Comparison& comparison, bool asynchronous,
                                                       RowName name = label_of);

// "throughput, places shared within the model's error of 8 %: 1. a, b; 3. c; asynchronous: 1. d"; "" without two
// systems to compare.
std::string places_text(const Comparison& comparison, RowName name = label_of);

// One sentence: "final accuracy: cannot be told apart: a, b; nor: b, c; apart from all others: d".
std::string to_text(const Verdict& verdict);

bool enough_seeds(const ComparisonRow& row);  // of the throughput

}  // namespace sluice
