// Names of the ranges of a trace's compute ops.
#pragma once

#include <string>

namespace sluice {

// ECMAScript regular expressions, found anywhere in an event's name. Groups: none; the micro-batch; or the stage and
// the micro-batch. All empty: the names of PyTorch's schedules (trace_ranges.cpp).
struct RangePatterns {
  std::string forward, backward, input_gradient, weight_gradient;
};

}  // namespace sluice
