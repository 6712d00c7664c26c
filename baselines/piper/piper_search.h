// Piper's planner (Tarnawski, Narayanan, Phanishayee, NeurIPS 2021, sections 3 and 4): cuts a DAG
// of layers into contiguous stages, gives each a data-parallel degree d, a tensor-parallel degree t
// and one variant per layer, and minimises the slowest stage's time per micro-batch (TPS)
//
//   TPS = sum(p)/d + [ sum over cut edges 2(c + sync)/d + 4(d-1)/(d N) sum(w) ] / bandwidth
//
// within each device's memory, sum(a) y + sum(b) <= M, where y = ceil(sigma/d) micro-batches are in
// flight and sigma is the sum of the data degrees of this stage and those after it.
//
// The paper's dynamic program keeps the least TPS for every (down-set, devices, degree sum). Here
// the question is turned round: for a given TPS, a down-set keeps only its undominated (devices,
// degree sum) pairs, and the least TPS is found by bisection between the best plan so far and the
// least time that was refused. Same optimum, a fraction of the states.
#pragma once

#include <string>
#include <vector>

#include "harness/model/cost_graph.h"
#include "harness/plan/search.h"

namespace sluice {

struct PiperOptions {
  int devices = 1;
  int microbatches = 1;  // N, of one batch
  double bandwidth = 0;  // bytes/s from any device to any other; infinity: free
  double memory = 0;     // bytes of each device
  bool exact_knapsack = false;
  bool data_parallel = true;  // false: d = 1 everywhere (a baseline of the paper)
  bool tensor_parallel = true;
  bool recompute = true;  // false: no variant whose id says "recomp", no stage that recomputes
  SearchLimits limits = {};
};

struct PiperStage {
  std::vector<int> layers;    // ascending
  int data = 1, tensor = 1;   // devices: data * tensor
  bool recompute = false;     // as a whole, where layers have no variants
  std::vector<int> variants;  // per layer: index into LayerCost::variants; -1: it has none
  double seconds = 0;         // TPS
};

struct PiperResult {
  std::vector<PiperStage> stages;  // first to last; empty: nothing fits
  double seconds = 0;              // the slowest
  std::int64_t down_sets = 0, states = 0;
  bool complete = true;
};

PiperResult piper_search(const CostGraph& costs, const PiperOptions& options);

// Scores a plan from scratch: the slowest stage's TPS; infinity if a stage does not fit or too many
// devices are used.
double piper_seconds(const CostGraph& costs, const PiperOptions& options, const std::vector<PiperStage>& stages);

}  // namespace sluice
