// Theory: what a system's paper promises, in micro-batches and weight versions per rank; printed next to what is
// observed, and held against the virtual clock by the contract test.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct Theory {
  // Idle share of the ranks' time from the first op to the last, at uniform costs, F = I = W (so B = 2 F), no latency.
  std::optional<double> bubble_ratio = {};
  // Each with a value for every rank, or empty where the paper promises nothing.
  std::vector<int> in_flight = {};        // peak activations, micro-batches of one stage
  std::vector<int> weight_versions = {};  // held at a time, the newest included
  std::vector<int> staleness = {};        // updates between a batch's forward and its own update, in steady state
  std::string note = {};                  // a warning for whoever asked for this problem
};

// What every system with a flush promises: one version and no staleness on each of `ranks` ranks.
Theory flush_theory(int ranks);

// Bubble ratio of an order that fills p ranks one after the other and drains them, `forwards` F and as many B on each:
// (p - 1) / (forwards + p - 1).
double fill_drain_bubble(int ranks, int forwards);

// Of ranks that wait for nobody, each with its share of the micro-batches: the last ones wait where they do not divide.
double data_parallel_bubble(int ranks, int microbatches);

}  // namespace sluice
