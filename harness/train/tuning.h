// Tuning: the search for a case's learning rate. Every rate of the grid trains once, with a seed that no measurement
// has; the best final evaluation wins. Fair comparisons show a system at the rate that all share and at its own best
// one, so every system gets the same grid, the same length and the same seed.
#pragma once

#include <span>
#include <vector>

#include "harness/case/case.h"
#include "results/record.h"

namespace sluice {

// The candidates of a tuned case (c.tune is set), by rising rate, with purpose "tune". They are equal for all seeds of
// a case, so that they are run once for all of them.
std::vector<RunCase> tuning_cases(const RunCase& c);

// What the candidates' records say, and what is chosen. `candidates`: one record for each of tuning_cases, in order.
// A candidate counts if it is ok. The best final evaluation metric wins, or, where no candidate was evaluated, the
// lowest mean loss of the last tenth of the updates; of two equal ones the lower rate. If none counts, the lowest rate
// that diverged is taken, so that the case shows it; if none diverged, the lowest.
Tuning choose_learning_rate(const RunCase& c, std::span<const Record> candidates);

// `c` with the rate that `tuning` has chosen.
RunCase with_chosen_rate(RunCase c, const Tuning& tuning);

}  // namespace sluice
