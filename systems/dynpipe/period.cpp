#include "systems/dynpipe/period.h"

#include <algorithm>
#include <numeric>

namespace sluice {

Period steady_period(std::span<const double> stage, std::span<const double> transfer) {
  Period best;
  for (std::size_t i = 0; i < stage.size(); ++i) {
    double sum = 0;
    for (std::size_t j = i; j < stage.size(); ++j) {
      sum += stage[j];
      if (j > i) sum += 2 * transfer[j - 1];
      const double mean = sum / static_cast<double>(j - i + 1);
      const bool shorter = mean == best.seconds && j - i < best.last - best.first;
      if (mean > best.seconds || shorter) best = {mean, i, j};
    }
  }
  return best;
}

double mean_staleness(std::span<const double> weight) {
  const double all = std::accumulate(weight.begin(), weight.end(), 0.0);
  double sum = 0;
  for (std::size_t s = 0; s < weight.size(); ++s) sum += static_cast<double>(weight.size() - 1 - s) * weight[s];
  return all > 0 ? sum / all : 0;
}

}  // namespace sluice
