// Start times of the ops of a chain, for given orders of its stages: planners compare cuts or orders by them. Every
// stage has its own device, and a message takes the same time over every cut, for any size.
#pragma once

#include <vector>

#include "harness/pipeline/schedule.h"

namespace sluice {

// Seconds of F and B, [stage][micro-batch], and of a message between neighbours.
struct ChainSeconds {
  std::vector<std::vector<double>> forward, backward;
  double message = 0;
};

struct OrderTiming {
  std::vector<std::vector<double>> begin, end;  // seconds, [stage][place in its order]
  double makespan = 0;                          // seconds from the first op to the last
};

// An op begins once its stage is free and its input has arrived. orders: F and B of every micro-batch, without a
// deadlock.
OrderTiming time_order(const StageOrders& orders, const ChainSeconds& seconds);

}  // namespace sluice
