// Tuning: the search for a case's learning rate. Every rate of the grid trains with seeds that are never measured; the
// best final evaluation wins. Rounds shorten it (successive halving). Fair comparisons show a system at a common rate
// and at its own best one, so every system gets the same grid, rounds and seeds.
#pragma once

#include <span>
#include <vector>

#include "harness/case/case.h"
#include "results/record.h"

namespace sluice {

class RateSearch {
 public:
  explicit RateSearch(const RunCase& tuned);  // c.tune is set

  // The trainings of the current round, with purpose "tune": by ascending rate, the seeds of a rate together. They are
  // equal for all seeds of a case, so they run once for all of them.
  std::vector<RunCase> cases() const;

  // Ends the round. `records`: one for each of cases(), in order. A rate counts if it is ok with every seed. Rates are
  // ranked by the mean over the seeds of the final evaluation metric or, without evaluations, of the loss over the last
  // tenth of the updates (lowest first); of equal ones, the lower rate is first. The number that the round keeps
  // continues. If none counts, the lowest rate that diverged continues, so that the case shows the divergence; if none
  // diverged, the lowest.
  void end_round(std::span<const Record> records);

  bool over() const;
  // What was tried and, after the search, what was chosen.
  const Tuning& result() const { return tuning_; }

 private:
  const TuneSpec::Round& round() const;

  RunCase c_;
  std::size_t round_ = 0;
  std::vector<double> rates_;  // of the current round, ascending
  Tuning tuning_;
};

// A training that a search may need: every rate and seed in every round. A later round needs only a few of its
// trainings, which the search determines after the earlier rounds.
struct TuningCase {
  RunCase c;
  std::size_t round = 0;
};
std::vector<TuningCase> tuning_cases(const RunCase& tuned);

// `c` with the rate chosen in `tuning`.
RunCase with_chosen_rate(RunCase c, const Tuning& tuning);

// Keeps the cases i, i + n, i + 2 n, ... of "i/n" (i from 0). Cases whose searches share a training count as one and
// stay together, so that no two shards run it. Throws InputError.
std::vector<RunCase> shard(std::vector<RunCase> cases, const std::string& description);

}  // namespace sluice
