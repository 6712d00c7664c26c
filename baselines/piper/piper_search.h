// Piper's planner (Tarnawski, Narayanan, Phanishayee, NeurIPS 2021, sections 3 and 4): cuts a DAG of layers into
// contiguous stages, gives each a data-parallel degree d, a tensor-parallel degree t and one variant per layer (the
// paper's TMPC), and minimises the slowest stage's time per micro-batch (TPS)
//
//   TPS = sum(p)/d + [ sum over cut edges 2(c + sync)/d + 4(d-1)/(d N) sum(w) ] / bandwidth
//
// within each device's memory, sum(a) y + sum(b) <= M, where y = ceil(s/d) micro-batches are in flight and s is the sum
// of the data degrees of this stage and those after it.
//
// The paper's dynamic program (section 4) keeps the least TPS for every down-set I of the layers (closed under
// successors: what the last stages hold), devices k and degree sum s; the first of these stages is Q = I \ J:
//
//   D[I][k][s] = min over down-sets J in I, t and d of max( D[J][k - t d][s - d], TPS(Q, t, d, s) ),   D[{}] = 0
//
// Here the question is turned round: for a given TPS, a down-set keeps only its undominated (k, s) pairs, and the least
// TPS is found by bisection between the best plan so far and the least time that was rejected. Same optimum, a fraction
// of the states.
#pragma once

#include <cstdint>
#include <vector>

#include "baselines/piper/piper_plan.h"
#include "harness/model/cost_graph.h"

namespace sluice {

struct PiperResult {
  std::vector<PiperStage> stages;  // first to last; empty: nothing fits
  double seconds = 0;              // the slowest
  std::int64_t down_sets = 0, states = 0;
  bool complete = true;
};

PiperResult piper_search(const CostGraph& costs, const PiperOptions& options);

}  // namespace sluice
