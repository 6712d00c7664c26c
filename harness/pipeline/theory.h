// Theory: what a system's paper promises, in micro-batches and weight versions per rank. It is printed next to the
// observed values, and the contract test compares it with the virtual clock.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct Theory {
  // Idle share of the ranks' time from the first op to the last, at uniform costs, F = I = W (so B = 2 F), no latency.
  std::optional<double> bubble_ratio = {};
  // One value per rank, or empty if the paper gives none.
  std::vector<int> in_flight = {};        // peak activations, micro-batches of one stage
  std::vector<int> weight_versions = {};  // peak number held, including the newest
  std::vector<int> staleness = {};        // updates between a batch's forward and its own update, in steady state
  std::string note = {};                  // a warning about this problem, for the user
};

// Theory of every system with a flush: one version and no staleness on each of `ranks` ranks.
Theory flush_theory(int ranks);

// Bubble ratio of an order that fills p ranks one after the other and drains them, `forwards` F and B on each: (p - 1)
// / (forwards + p - 1).
double fill_drain_bubble(int ranks, int forwards);

// Bubble ratio of independent ranks, each with its share of the micro-batches: uneven shares leave some ranks idle.
double data_parallel_bubble(int ranks, int microbatches);

}  // namespace sluice
