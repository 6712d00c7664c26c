// Tuning: the search for a case's learning rate. Every rate of the grid trains, with seeds that no measurement has; the
// best final evaluation wins. Rounds shorten it (successive halving). Fair comparisons show a system at the rate that
// all share and at its own best one, so every system gets the same grid, rounds and seeds.
#pragma once

#include <span>
#include <vector>

#include "harness/case/case.h"
#include "results/record.h"

namespace sluice {

class RateSearch {
 public:
  explicit RateSearch(const RunCase& tuned);  // c.tune is set

  // The trainings of the current round, with purpose "tune": by rising rate, the seeds of a rate together. They are
  // equal for all seeds of a case, so that they are run once for all of them.
  std::vector<RunCase> cases() const;

  // Ends the round. `records`: one for each of cases(), in order. A rate counts if it is ok with every seed. The best
  // final evaluation metric, in the mean over the seeds, comes first, or, where no training was evaluated, the lowest
  // mean loss of the last tenth of the updates; of two equal ones the lower rate. The best go on, as many as the round
  // keeps. If none counts, the lowest rate that diverged goes on, so that the case shows it; if none diverged, the
  // lowest.
  void end_round(std::span<const Record> records);

  bool over() const;
  // What was tried, and, once the search is over, what was chosen.
  const Tuning& result() const { return tuning_; }

 private:
  const TuneSpec::Round& round() const;

  RunCase c_;
  std::size_t round_ = 0;
  std::vector<double> rates_;  // of the current round, ascending
  Tuning tuning_;
};

// A training that a search may need: every rate and seed in every round. A later round needs few of its own; the search
// says which once the earlier ones have ended.
struct TuningCase {
  RunCase c;
  std::size_t round = 0;
};
std::vector<TuningCase> tuning_cases(const RunCase& tuned);

// `c` with the rate that `tuning` has chosen.
RunCase with_chosen_rate(RunCase c, const Tuning& tuning);

// Keeps the cases i, i + n, i + 2 n, ... of "i/n" (i from 0). Cases whose searches share a training count as one and
// stay together, so that no two shards run it. Throws InputError.
std::vector<RunCase> shard(std::vector<RunCase> cases, const std::string& description);

}  // namespace sluice
