// Order statistics: see statistics.h.
#include "results/statistics.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "harness/base/splitmix64.h"

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

std::optional<Spread> spread(std::span<const double> sample) {
  if (sample.empty()) return std::nullopt;
  return Spread{quantile(sample, 0), median(sample), quantile(sample, 1)};
}

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

// The 97.5 % quantile of Student's t over the normal distribution's: Cornish and Fisher's expansion, 3 % short with two
// degrees of freedom, 0.4 % with four.
static double student_over_normal(double degrees) {
  constexpr double z = 1.959964, z2 = z * z;
  const double d = 4 * degrees;
  return 1 + (z2 + 1) / d + ((5 * z2 + 16) * z2 + 3) / (6 * d * d) +
         (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (6 * d * d * d);
}

std::optional<Interval> mean_interval(std::span<const double> sample) {
  constexpr int kResamples = 999;
  const std::size_t n = sample.size();
  if (n < 6) return std::nullopt;
  const auto wanted = static_cast<std::size_t>(std::ceil(2 * std::cbrt(static_cast<double>(n))));
  const std::size_t block = std::clamp<std::size_t>(wanted, 2, n / 3), blocks = (n + block - 1) / block;
  std::vector<double> sums{0};  // of the values before each place, once more around
  for (std::size_t k = 0; k < n + block; ++k) sums.push_back(sums.back() + sample[k % n]);
  std::uint64_t state = n;
  std::vector<double> means;
  for (int resample = 0; resample < kResamples; ++resample) {
    double sum = 0;
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t at = next_splitmix64(state) % n;
      sum += sums[at + block] - sums[at];
    }
    means.push_back(sum / static_cast<double>(blocks * block));
  }
  const double size = static_cast<double>(n), mean = sums[n] / size;
  // Few blocks vary too little: widened as Student's t is over the normal distribution, and by what a mean of the
  // blocks themselves takes away.
  const double wider = student_over_normal(size / static_cast<double>(block) - 1) *
                       std::sqrt(size / (size - static_cast<double>(block)));
  return Interval{mean + wider * (quantile(means, 0.025) - mean), mean + wider * (quantile(means, 0.975) - mean)};
}

std::optional<PairedDifference> paired_difference(std::span<const double> differences) {
  const std::size_t n = differences.size();
  if (n < 3) return std::nullopt;
  const auto size = static_cast<double>(n);
  double sum = 0, squares = 0;
  for (const double d : differences) sum += d;
  const double mean = sum / size;
  for (const double d : differences) squares += (d - mean) * (d - mean);
  const double error = std::sqrt(squares / (size - 1) / size);  // of the mean
  if (error == 0) return PairedDifference{mean, {mean, mean}, mean == 0 ? 1.0 : 0.0};
  const boost::math::students_t student(size - 1);
  const double wide = boost::math::quantile(student, 0.975) * error;
  const double beyond = boost::math::cdf(boost::math::complement(student, std::abs(mean) / error));
  return PairedDifference{mean, {mean - wide, mean + wide}, 2 * beyond};
}

std::vector<double> holm(std::span<const double> p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p_values[i]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0;  // adjusted values never fall
  for (std::size_t k = 0; k < order.size(); ++k) {
    largest = std::max(largest, std::min(1.0, p_values[order[k]] * static_cast<double>(order.size() - k)));
    adjusted[order[k]] = largest;
  }
  return adjusted;
}

bool overlap(const Interval& a, const Interval& b) { return a.low <= b.high && b.low <= a.high; }

// How many of the orders of n values of one sample and m of another have u pairs with the first larger, for every u:
// f(n, m, u) = f(n - 1, m, u - m) + f(n, m - 1, u).
static std::vector<double> orders_by_pairs(std::size_t n, std::size_t m) {
  std::vector<std::vector<double>> count(m + 1, {1});  // of i values of the first sample, by those of the second
  for (std::size_t i = 1; i <= n; ++i) {
    std::vector<std::vector<double>> next(m + 1);
    for (std::size_t j = 0; j <= m; ++j) {
      next[j].assign(i * j + 1, 0);
      for (std::size_t u = 0; u < next[j].size(); ++u) {
        if (u >= j && u - j < count[j].size()) next[j][u] += count[j][u - j];
        if (j > 0 && u < next[j - 1].size()) next[j][u] += next[j - 1][u];
      }
    }
    count = std::move(next);
  }
  return count[m];
}

std::optional<double> mann_whitney(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return std::nullopt;
  double pairs = 0;
  for (const double x : a)
    for (const double y : b) pairs += x > y ? 1 : x == y ? 0.5 : 0;
  std::map<double, double> times;
  for (const std::span<const double> sample : {a, b})
    for (const double x : sample) ++times[x];
  double ties = 0;  // sum of t^3 - t
  for (const auto& [value, t] : times) ties += t * t * t - t;
  const double n = static_cast<double>(a.size()), m = static_cast<double>(b.size()), all = n + m;
  if (ties == 0 && n * m <= 400) {
    const std::vector<double> orders = orders_by_pairs(a.size(), b.size());
    const double least = std::min(pairs, n * m - pairs);
    double as_far = 0, total = 0;
    for (std::size_t u = 0; u < orders.size(); ++u) {
      total += orders[u];
      if (static_cast<double>(u) <= least) as_far += orders[u];
    }
    return std::min(1.0, 2 * as_far / total);
  }
  const double variance = n * m / 12 * (all + 1 - ties / (all * (all - 1)));
  if (variance <= 0) return 1;
  const double distance = std::max(0.0, std::abs(pairs - n * m / 2) - 0.5);  // corrected for continuity
  return std::erfc(distance / std::sqrt(2 * variance));
}

Interval hull(const Interval& a, const Interval& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

}  // namespace sluice
