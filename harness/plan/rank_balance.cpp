#include "harness/plan/rank_balance.h"

#include <algorithm>

namespace sluice {

RankBalance balance_of(const std::vector<int>& starts, const std::vector<double>& seconds_before,
                       const std::vector<int>& rank_of, const std::vector<double>& speed_of) {
  std::vector<double> held(static_cast<std::size_t>(1 + *std::ranges::max_element(rank_of)), 0);
  for (std::size_t s = 0; s < rank_of.size(); ++s)
    held[rank_of[s]] += (seconds_before[starts[s + 1]] - seconds_before[starts[s]]) / speed_of[s];
  RankBalance balance;
  for (const double seconds : held) {
    balance.slowest = std::max(balance.slowest, seconds);
    balance.squares += seconds * seconds;
  }
  return balance;
}

namespace {

class Search {
 public:
  Search(std::vector<int> starts, const std::vector<double>& seconds_before, const std::vector<int>& rank_of,
         const std::vector<double>& speed_of)
      : best_(std::move(starts)), seconds_before_(seconds_before), rank_of_(rank_of), speed_of_(speed_of) {
    least_ = balance(best_);
  }

  void try_all() {
    std::vector<int> cut = best_;
    place(cut, 1);
  }

  // The best move of a run of cuts by one layer, again and again.
  void climb() {
    const std::size_t stages = rank_of_.size();
    for (bool moved = true; moved;) {
      moved = false;
      const std::vector<int> from = best_;
      for (std::size_t first = 1; first < stages; ++first)
        for (const int by : {-1, 1}) {
          std::vector<int> cut = from;
          for (std::size_t last = first; last < stages; ++last) {
            cut[last] += by;
            // A stage keeps a layer: the one before the run, and the one after it (inside the run none changes).
            if (by < 0 && cut[first] <= cut[first - 1]) break;
            if (by > 0 && cut[last] >= from[last + 1]) continue;
            moved = consider(cut) || moved;
          }
        }
    }
  }

  const std::vector<int>& best() const { return best_; }

 private:
  RankBalance balance(const std::vector<int>& cut) const {
    return balance_of(cut, seconds_before_, rank_of_, speed_of_);
  }

  bool consider(const std::vector<int>& cut) {
    constexpr double min_gain = 1e-9;
    const RankBalance found = balance(cut);
    const bool faster = found.slowest < least_.slowest * (1 - min_gain);
    const bool as_fast = found.slowest <= least_.slowest;
    if (!faster && !(as_fast && found.squares < least_.squares * (1 - min_gain))) return false;
    best_ = cut;
    least_ = found;
    return true;
  }

  void place(std::vector<int>& cut, std::size_t stage) {
    const std::size_t stages = rank_of_.size();
    if (stage == stages) {
      consider(cut);
      return;
    }
    const int last = cut[stages] - static_cast<int>(stages - stage);
    for (cut[stage] = cut[stage - 1] + 1; cut[stage] <= last; ++cut[stage]) place(cut, stage + 1);
  }

  std::vector<int> best_;
  RankBalance least_;
  const std::vector<double>& seconds_before_;
  const std::vector<int>& rank_of_;
  const std::vector<double>& speed_of_;
};

}  // namespace

std::vector<int> balanced_over_ranks(const std::vector<int>& starts, const std::vector<double>& seconds_before,
                                     const std::vector<int>& rank_of, const std::vector<double>& speed_of, long exact) {
  double cuts = 1;  // layers - 1 over stages - 1
  const std::size_t stages = rank_of.size();
  for (std::size_t k = 1; k < stages; ++k)
    cuts *= (static_cast<double>(starts.back()) - static_cast<double>(k)) / static_cast<double>(k);
  Search search(starts, seconds_before, rank_of, speed_of);
  if (cuts <= static_cast<double>(exact)) {
    search.try_all();
  } else {
    search.climb();
  }
  return search.best();
}

}  // namespace sluice
