#include "results/steady_window.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sluice {
namespace {

constexpr std::size_t kLongestPeriod = 64;
// Reference records keep nine digits, which is at most 5e-9 of a value, of two values.
constexpr double kSame = 2e-8;

bool same(double a, double b) { return std::abs(a - b) <= kSame * std::max(std::abs(a), std::abs(b)); }

// The longest stretch in which every step equals the one a period before it.
SteadyWindow longest_stretch(std::span<const double> seconds, std::size_t period) {
  SteadyWindow best{.period = period};
  std::size_t run = 0;  // steps that equal the one a period before, up to k
  for (std::size_t k = period; k < seconds.size(); ++k) {
    run = same(seconds[k], seconds[k - period]) ? run + 1 : 0;
    if (run < period || run + period <= best.count) continue;
    best.count = run + period;
    best.first = k + 1 - best.count;
  }
  return best;
}

}  // namespace

std::optional<SteadyWindow> steady_window(std::span<const double> seconds, std::size_t least) {
  SteadyWindow best;
  for (std::size_t period = 1; period <= kLongestPeriod && 2 * period <= seconds.size(); ++period) {
    const SteadyWindow found = longest_stretch(seconds, period);
    // A multiple of the period repeats as well, and may by chance reach a step or two further.
    if (9 * found.count > 10 * best.count) best = found;
  }
  if (best.count < std::max<std::size_t>(least, 2) || 2 * best.count < seconds.size()) return std::nullopt;
  best.count -= best.count % best.period;
  const auto steps = seconds.subspan(best.first, best.count);
  best.seconds = std::accumulate(steps.begin(), steps.end(), 0.0);
  if (!(best.seconds > 0) || !std::isfinite(best.seconds)) return std::nullopt;
  return best;
}

std::vector<double> step_seconds_of(std::span<const double> ends) {
  std::vector<double> steps;
  for (std::size_t u = 0; u < ends.size(); ++u) steps.push_back(ends[u] - (u == 0 ? 0.0 : ends[u - 1]));
  return steps;
}

}  // namespace sluice
