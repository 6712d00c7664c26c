#include "systems/dynapipe/injection.h"

#include <algorithm>
#include <numeric>

namespace sluice {

static double squared_distance(const EndTimes& a, const EndTimes& b) {
  return (a.first - b.first) * (a.first - b.first) + (a.last - b.last) * (a.last - b.last);
}

std::vector<int> clusters_of(std::span<const EndTimes> times, int clusters) {
  std::vector<EndTimes> sorted(times.begin(), times.end());
  std::ranges::sort(sorted);
  sorted.erase(std::ranges::unique(sorted).begin(), sorted.end());
  const std::size_t k = std::min(sorted.size(), static_cast<std::size_t>(clusters));
  std::vector<EndTimes> centres;
  for (std::size_t c = 0; c < k; ++c) centres.push_back(sorted[(2 * c + 1) * sorted.size() / (2 * k)]);
  std::vector<int> cluster(times.size(), -1);
  constexpr int kMaxRounds = 100;
  for (int round = 0; round < kMaxRounds; ++round) {
    std::vector<int> now;
    for (const EndTimes& t : times)
      now.push_back(static_cast<int>(
          std::ranges::min_element(centres, {}, [&](const EndTimes& c) { return squared_distance(t, c); }) -
          centres.begin()));
    if (now == cluster) break;
    cluster = std::move(now);
    for (std::size_t c = 0; c < k; ++c) {
      EndTimes sum{0, 0};
      double members = 0;
      for (std::size_t m = 0; m < times.size(); ++m)
        if (cluster[m] == static_cast<int>(c)) sum.first += times[m].first, sum.last += times[m].last, ++members;
      if (members > 0) centres[c] = {sum.first / members, sum.last / members};
    }
  }
  return cluster;
}

std::vector<std::vector<int>> injection_orders(std::span<const EndTimes> times, int clusters) {
  const std::vector<int> cluster = clusters_of(times, clusters);
  std::vector<int> given(times.size()), permutation(cluster.empty() ? 0 : std::ranges::max(cluster) + 1);
  std::iota(given.begin(), given.end(), 0);
  std::iota(permutation.begin(), permutation.end(), 0);
  std::vector<std::vector<int>> orders = {given};
  do {
    std::vector<int> order;
    for (const int c : permutation)
      for (const int m : given)
        if (cluster[m] == c) order.push_back(m);
    if (std::ranges::count(orders, order) == 0) orders.push_back(std::move(order));
  } while (std::ranges::next_permutation(permutation).found);
  return orders;
}

}  // namespace sluice
