// PipeDream-2BW's planner (Narayanan et al., ICML 2021, section 3.3), from memory: a pipeline of `depth` equal
// stages, `width` replicas of it, a micro-batch size, recomputation or not: all of them are tried,
// what does not fit in memory is dropped, and the highest throughput wins. The paper's models
// repeat one block; here the stages are the exact min-max cut, which for repeated blocks is the
// equal one.
//
//   samples/s = b width / max over stages of max( compute (+ forward again) + transfers,
//                                                 all-reduce of the stage / m ),   m = B/(b width)
//   memory    = 2 |W| + (depth - s) |A(b)|              two weight versions
//             = 2 |W| + (depth - s) |A_in(b)| + |A(b)|  with recomputation
//
// That memory is the paper's estimate, which leaves out gradients and the optimizer's state; where
// a footprint is given, |W| + that is taken instead.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "harness/model/cluster.h"
#include "harness/pipeline/system.h"
#include "harness/plan/search.h"

namespace sluice {

struct TwoBwOptions {
  int devices = 1;
  std::int64_t batch = 1;                   // samples of one update, over all replicas
  std::vector<std::int64_t> micro_batches;  // samples, to try; empty: the cost graph's own
  bool may_recompute = true, must_recompute = false;
  // As Problem has them. Empty: other micro-batches than the graph's own cost in proportion; memory
  // by the paper's estimate.
  std::function<std::shared_ptr<const CostGraph>(std::int64_t micro_batch)> costs_at = {};
  std::function<Problem::Footprint(std::span<const int> layers)> footprint = {};
  int max_width = std::numeric_limits<int>::max();
  SearchLimits limits = {};
};

struct TwoBwPlan {
  Plan plan;  // micro-batches of plan.micro_batch samples; stage s on devices s width ..
  int width = 0, depth = 0, microbatches = 0;  // micro-batches of each copy in an update
  bool recompute = false;
  double samples_per_second = 0;
};

// The best plan of every depth that fits, ascending; the paper takes that of the most samples per second. m >= depth is
// asked for, as the paper does. Throws InputError for options that leave nothing to try.
std::vector<TwoBwPlan> two_bw_plans(const CostGraph& costs, const Cluster& cluster, const TwoBwOptions& options);

}  // namespace sluice
