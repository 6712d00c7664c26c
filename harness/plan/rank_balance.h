// Cuts of a chain for a placement: if a rank has several stages, its time is their sum.
#pragma once

#include <vector>

namespace sluice {

// The quality of a cut of a chain with placed stages. Compared in this order; lower is better.
struct RankBalance {
  double slowest = 0;  // largest sum over a rank's stages, seconds
  double squares = 0;  // sum over the ranks of the square of their seconds: the balance of the others
  friend auto operator<=>(const RankBalance&, const RankBalance&) = default;
};

// starts: the first layer of every stage, and the number of layers at the end. seconds_before[l]: of all layers before
// l, on a device of speed 1. rank_of[s], speed_of[s]: per stage.
RankBalance balance_of(const std::vector<int>& starts, const std::vector<double>& seconds_before,
                       const std::vector<int>& rank_of, const std::vector<double>& speed_of);

// The cut with the lowest balance_of. Exact, by brute force, for at most `exact` cuts. Otherwise a local search from
// `starts` that moves runs of neighbouring cuts by one layer. Returns `starts` if no cut is better by more than a
// billionth.
std::vector<int> balanced_over_ranks(const std::vector<int>& starts, const std::vector<double>& seconds_before,
                                     const std::vector<int>& rank_of, const std::vector<double>& speed_of,
                                     long exact = 20'000);

}  // namespace sluice
