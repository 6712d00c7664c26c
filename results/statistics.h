// Order statistics of a sample. Step times are skewed and have outliers, so nothing here assumes a distribution:
// medians, quantiles, and an interval of the median that holds for every continuous one.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace sluice {

struct Interval {
  double low = 0, high = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

// Quantile q in [0, 1] by linear interpolation between order statistics (Hyndman and Fan's type 7, R's and NumPy's
// default). Throws std::invalid_argument for an empty sample or q outside [0, 1].
double quantile(std::span<const double> sample, double q);

double median(std::span<const double> sample);

struct Spread {
  double min = 0, median = 0, max = 0;
};
std::optional<Spread> spread(std::span<const double> sample);  // nullopt: it is empty
inline std::optional<double> middle(const std::optional<Spread>& spread) {
  return spread ? std::optional(spread->median) : std::nullopt;
}

// The narrowest pair of order statistics [x(j), x(n+1-j)] that contains the median with at least the given probability:
// the number of values below the median is binomial(n, 1/2), so the coverage is 1 - 2 P(X < j). nullopt if even [min,
// max] covers less: fewer than 6 values at 95 %.
std::optional<Interval> median_interval(std::span<const double> sample, double confidence = 0.95);

// The 95 % interval of the mean of a series whose neighbouring values depend on each other, such as the steps of a
// pipeline: a circular block bootstrap (Politis and Romano, 1992) of 999 resamples, the percentiles of the resampled
// means, widened for few blocks like Student's t. Blocks have max(2, ceil(2 n^(1/3))) values, at most a third of the
// series; the resamples are the same every time. nullopt with fewer than 6 values.
std::optional<Interval> mean_interval(std::span<const double> sample);

bool overlap(const Interval& a, const Interval& b);

// The two-sided p-value of the Mann-Whitney test that two samples have one distribution: the probability that two
// samples of one distribution differ at least as much, by the number of pairs in which the first is larger (ties count
// half). Exact without ties; with ties, or more than 400 pairs, the normal approximation with its corrections. nullopt
// for an empty sample.
std::optional<double> mann_whitney(std::span<const double> a, std::span<const double> b);

// Difference of two systems over the same seeds, which give both the same data and initial weights.
struct PairedDifference {
  double mean = 0;
  Interval interval;   // of the mean, 95 %
  double p_value = 1;  // for a mean of 0: Student's paired test, two-sided
  friend bool operator==(const PairedDifference&, const PairedDifference&) = default;
};
// nullopt for fewer than three differences. If all are equal, the interval is their value.
std::optional<PairedDifference> paired_difference(std::span<const double> differences);

// Holm's correction (1979) for this number of tests: if those that stay below 5 % count as significant, the probability
// of any error among them is at most 5 %. In the order given.
std::vector<double> holm(std::span<const double> p_values);

// The smallest interval that contains both.
Interval hull(const Interval& a, const Interval& b);

}  // namespace sluice
