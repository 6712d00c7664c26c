// A learning curve of a row of a comparison, over its seeds.
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

// Metrics where `evaluated`, else losses. Where half of the seeds or more have ended (diverged), the median would be
// that of the survivors: the curve ends there.
std::vector<CurveStep> curve_steps(const ComparisonRow& row, bool evaluated);

}  // namespace sluice
