// Tuning: the search for a case's learning rate. Every rate of the grid trains once under a seed of
// its own; the best final evaluation wins. Fair comparisons show a system at the rate all share and
// at its own best one, so every system gets the same grid, the same length and the same seed.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "harness/case/case.h"
#include "results/record.h"

namespace sluice {

// The candidates of a tuned case (c.tune is set), by rising rate, with purpose "tune". Equal for
// all seeds of a case, so that they are run once for all of them.
std::vector<RunCase> tuning_cases(const RunCase& c);

// What the candidates' records say, and what is chosen. `candidates` as tuning_cases gives them.
// A candidate counts if it is ok; the best final evaluation metric wins, or, where the workload has
// no test samples, the lowest loss of its last update; the lower of two equal ones. If none counts
// the lowest rate that diverged is taken, so that the case shows it; if none diverged, the lowest.
//   {"grid", "criterion", "seed", "epochs" | "steps", "chosen",
//    "results": [{"learning_rate", "value" (null: does not count), "outcome", "digest"}, ...]}
nlohmann::json choose_learning_rate(const RunCase& c, std::span<const Record> candidates);

// `c` with the rate that `tuning` has chosen.
RunCase with_chosen_rate(RunCase c, const nlohmann::json& tuning);

}  // namespace sluice
