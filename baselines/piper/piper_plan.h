// What Piper plans for, and what its plans are made of.
#pragma once

#include <limits>
#include <vector>

#include "harness/plan/search.h"

namespace sluice {

struct PiperOptions {
  int devices = 1;       // k: used at most
  int microbatches = 1;  // N, of one batch
  double bandwidth = 0;  // bytes/s from any device to any other; infinity: free
  double memory = 0;     // M, bytes of each device
  bool exact_knapsack = false;
  int max_data = std::numeric_limits<int>::max();  // largest d; 1: a baseline of the paper
  bool tensor_parallel = true;
  bool recompute = true;  // false: no variant that recomputes, no stage that does
  SearchLimits limits = {};
};

struct PiperStage {
  std::vector<int> layers;    // ascending
  int data = 1, tensor = 1;   // d and t; devices: d t
  bool recompute = false;     // as a whole, where layers have no variants
  std::vector<int> variants;  // per layer: index into LayerCost::variants; -1: it has none
  double seconds = 0;         // TPS
};

}  // namespace sluice
