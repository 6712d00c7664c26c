// Order statistics: see statistics.h.
#include "results/statistics.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace sluice {
namespace {

std::vector<double> sorted(std::span<const double> sample) {
  std::vector<double> values(sample.begin(), sample.end());
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

double quantile(std::span<const double> sample, double q) {
  if (sample.empty()) throw std::invalid_argument("quantile of an empty sample");
  if (!(q >= 0 && q <= 1)) throw std::invalid_argument("quantile outside [0, 1]");
  const std::vector<double> x = sorted(sample);
  const double place = q * static_cast<double>(x.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, x.size() - 1);
  const double part = place - static_cast<double>(below);
  return part == 0 ? x[below] : x[below] + part * (x[above] - x[below]);
}

double median(std::span<const double> sample) { return quantile(sample, 0.5); }

std::optional<Interval> median_interval(std::span<const double> sample, double confidence) {
  const std::size_t n = sample.size();
  if (n == 0) return std::nullopt;
  // P(X = k) of binomial(n, 1/2) through logarithms: 2^-n underflows from n = 1075 on.
  const auto probability = [n](std::size_t k) {
    const auto size = static_cast<double>(n), count = static_cast<double>(k);
    return std::exp(std::lgamma(size + 1) - std::lgamma(count + 1) - std::lgamma(size - count + 1) -
                    size * std::log(2.0));
  };
  std::size_t j = 0;  // counted from 1: the largest with 1 - 2 P(X < j) >= confidence
  double below = 0;   // P(X < j)
  while (2 * (j + 1) <= n + 1) {
    below += probability(j);
    if (1 - 2 * below < confidence) break;
    ++j;
  }
  if (j == 0) return std::nullopt;
  const std::vector<double> x = sorted(sample);
  return Interval{x[j - 1], x[n - j]};
}

bool overlap(const Interval& a, const Interval& b) { return a.low <= b.high && b.low <= a.high; }

Interval hull(const Interval& a, const Interval& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

}  // namespace sluice
