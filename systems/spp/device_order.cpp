#include "systems/spp/device_order.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "harness/plan/machines.h"

namespace sluice {

SquareMatrix pair_bandwidths(const Cluster& cluster, int devices) {
  const std::size_t n = few_enough_to_compare(devices);
  SquareMatrix result(n, std::numeric_limits<double>::infinity());
  Paths paths(cluster);
  const auto slowest = [&](std::size_t from, std::size_t to) {
    double bandwidth = std::numeric_limits<double>::infinity();
    for (const Hop& hop : paths.between(DeviceId(from), DeviceId(to)))
      bandwidth = std::min(bandwidth, hop.link.bandwidth);
    return bandwidth;
  };
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = a + 1; b < n; ++b) {
      const double there = slowest(a, b), back = slowest(b, a);
      result.at(a, b) = result.at(b, a) = std::min(there, back);
    }
  return result;
}

static void order_of(const SquareMatrix& bandwidths, const std::vector<int>& devices, std::vector<int>& order) {
  if (devices.size() == 1) {
    order.push_back(devices.front());
    return;
  }
  SquareMatrix inside(devices.size());
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = 0; b < devices.size(); ++b)
      if (a != b)
        inside.at(a, b) = std::min(bandwidths.at(devices[a], static_cast<std::size_t>(devices[b])),
                                   bandwidths.at(devices[b], static_cast<std::size_t>(devices[a])));
  Cut cut = min_cut(inside);
  for (std::vector<int>* side : {&cut.near_side, &cut.far_side}) {
    for (int& vertex : *side) vertex = devices[vertex];
    order_of(bandwidths, *side, order);
  }
}

std::vector<int> recursive_min_cut_order(const SquareMatrix& bandwidths) {
  std::vector<int> devices(bandwidths.size()), order;
  std::iota(devices.begin(), devices.end(), 0);
  if (!devices.empty()) order_of(bandwidths, devices, order);
  return order;
}

}  // namespace sluice
