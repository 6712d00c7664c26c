// Piper's inner problem (Tarnawski, Narayanan, Phanishayee, NeurIPS 2021, section 4.2): every layer
// of a stage runs in one of several variants; choose them so that the stage fits in memory and
// takes the least time.
#pragma once

#include <optional>
#include <vector>

namespace sluice {

struct KnapsackChoice {
  double seconds = 0, bytes = 0;
};

struct KnapsackResult {
  double seconds = 0;
  std::vector<int> chosen;  // per item
  bool complete = true;     // exact: false if the front grew beyond `widest`
};

// The authors' heuristic: everything fastest; while that is too large, the swap that costs least
// per byte saved (all swaps sorted once where no item has more than two choices, else found anew
// each time with the saving cut to what is still needed). Empty: does not fit.
std::optional<KnapsackResult> greedy_knapsack(const std::vector<std::vector<KnapsackChoice>>& items, double memory);

// The optimum, by the front of undominated (seconds, bytes) sums. With more than `widest` of them
// the slowest are dropped, and the result is the greedy one if that is better.
std::optional<KnapsackResult> exact_knapsack(const std::vector<std::vector<KnapsackChoice>>& items, double memory,
                                             std::size_t widest = 100'000);

}  // namespace sluice
