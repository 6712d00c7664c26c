// DynaPipe's orders in which micro-batches enter the pipeline: clusters of similar micro-batches, one cluster after
// another, in every order of the clusters.
#pragma once

#include <span>
#include <vector>

namespace sluice {

// What a micro-batch takes on the first and on the last stage, seconds.
struct EndTimes {
  double first, last;
  friend auto operator<=>(const EndTimes&, const EndTimes&) = default;
};

// Per micro-batch its cluster, from 0, at most `clusters`: k-means, which starts from the quantiles of the sorted
// times, so that equal micro-batches share a cluster and the result is always the same.
std::vector<int> clusters_of(std::span<const EndTimes> times, int clusters);

// The given order first, then those of the permutations of the clusters; within a cluster the given order. Each once.
std::vector<std::vector<int>> injection_orders(std::span<const EndTimes> times, int clusters);

}  // namespace sluice
