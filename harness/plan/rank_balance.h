// Cuts of a chain that know their placement: where a rank has several stages, it is as slow as all of them together.
#pragma once

#include <vector>

namespace sluice {

// What a cut makes of a chain whose stages lie on ranks. Compared in this order; less is better.
struct RankBalance {
  double slowest = 0;  // seconds of the rank whose stages take longest together
  double squares = 0;  // sum over the ranks of the square of theirs: how uneven the others are
  friend auto operator<=>(const RankBalance&, const RankBalance&) = default;
};

// starts: the first layer of every stage, and the number of layers at the end. seconds_before[l]: of all layers before
// l, on a device of speed 1. rank_of[s], speed_of[s]: of the stages.
RankBalance balance_of(const std::vector<int>& starts, const std::vector<double>& seconds_before,
                       const std::vector<int>& rank_of, const std::vector<double>& speed_of);

// The cut of least balance_of: exact where there are at most `exact` cuts, by trying them all; otherwise the best that
// moving runs of neighbouring cuts by a layer finds, from `starts` on. `starts` itself where none is better by more
// than a billionth.
std::vector<int> balanced_over_ranks(const std::vector<int>& starts, const std::vector<double>& seconds_before,
                                     const std::vector<int>& rank_of, const std::vector<double>& speed_of,
                                     long exact = 20'000);

}  // namespace sluice
