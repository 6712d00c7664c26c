// Route: what a message, or a step of a ring, costs on the links that it takes, and the media that it occupies there.
#pragma once

#include <cstddef>
#include <vector>

#include "harness/base/work.h"

namespace sluice {

struct Route {
  double latency = 0;           // seconds
  double seconds_per_byte = 0;  // with the media to itself
  std::vector<std::size_t> media;
  std::vector<double> crossings =
      {};                     // per medium: how often a byte of the route crosses it. Of a ring: its hops there
  PiecewiseSpeed speed = {};  // of its transfers
};

}  // namespace sluice
