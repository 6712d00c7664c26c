// Route: the cost of a message, or of a ring step, on its links, and the media that it occupies.
#pragma once

#include <cstddef>
#include <vector>

#include "harness/base/work.h"

namespace sluice {

struct Route {
  double latency = 0;           // seconds
  double seconds_per_byte = 0;  // without contention
  std::vector<std::size_t> media;
  std::vector<double> crossings =
      {};                     // per medium: how often a byte of the route crosses it. Of a ring: its hops there
  PiecewiseSpeed speed = {};  // of its transfers
};

}  // namespace sluice
