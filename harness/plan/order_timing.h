// When the ops of a chain begin, by the order of every stage: what planners that choose cuts or orders compare. Every
// stage has a device of its own, and a message takes the same time over every cut, whatever it holds.
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

// An op begins once its stage is free and its input is there. orders: F and B of every micro-batch, which must come to
// their end.
OrderTiming time_order(const StageOrders& orders, const ChainSeconds& seconds);

}  // namespace sluice
