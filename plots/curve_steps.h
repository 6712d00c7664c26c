// The learning curve of a comparison's row, over its seeds.
#pragma once

#include <cstdint>
#include <vector>

#include "results/comparison.h"

namespace sluice {

// The seeds of one row after `step` updates: training seconds, and metrics or losses.
struct CurveStep {
  std::int64_t step = 0;
  std::vector<double> seconds, values;
};

// Metrics if `evaluated`, else losses. The curve ends when half of the seeds or more have ended (diverged), because the
// median would only be that of the others.
std::vector<CurveStep> curve_steps(const ComparisonRow& row, bool evaluated);

}  // namespace sluice
