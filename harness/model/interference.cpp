#include "harness/model/interference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "harness/base/splitmix64.h"

namespace sluice {

namespace {

constexpr double kForEver = std::numeric_limits<double>::infinity();
constexpr std::array kResources = {Resource::compute, Resource::memory, Resource::allocation, Resource::link};

// 1 / (1 + sum of the demands) of the episodes of one resource.
template <class Selected>
PiecewiseSpeed speed_of(const std::vector<Episode>& episodes, Selected selected) {
  std::vector<std::pair<double, double>> demands;  // when, and by how much the demand changes
  for (const Episode& e : episodes) {
    if (!selected(e) || e.slowdown == 1) continue;
    demands.emplace_back(e.start, e.slowdown - 1);
    if (e.end < kForEver) demands.emplace_back(e.end, 1 - e.slowdown);
  }
  std::ranges::sort(demands);
  std::vector<PiecewiseSpeed::Change> changes;
  double demand = 0;
  for (const auto& [when, change] : demands) {
    demand += change;
    if (std::abs(demand) < 1e-12) demand = 0;  // what is left of sums that cancel
    changes.push_back({when, 1 / (1 + demand)});
  }
  return PiecewiseSpeed(std::move(changes));
}

}  // namespace

PiecewiseSpeed Interference::device_speed(DeviceId device) const {
  PiecewiseSpeed speed;
  for (const Resource resource : kResources) {
    if (resource == Resource::link) continue;
    speed = PiecewiseSpeed::product(speed, speed_of(episodes, [&](const Episode& e) {
                                      return e.resource == resource && e.device == device.value;
                                    }));
  }
  return speed;
}

PiecewiseSpeed Interference::link_speed(DeviceId from, DeviceId to) const {
  return speed_of(episodes, [&](const Episode& e) {
    if (e.resource != Resource::link) return false;
    if (e.to < 0) return e.device == from.value || e.device == to.value;
    return (e.device == from.value && e.to == to.value) || (e.device == to.value && e.to == from.value);
  });
}

double noise_factor(std::uint64_t seed, std::uint64_t rank, std::uint64_t number, double sigma) {
  const std::uint64_t a = splitmix64(splitmix64(splitmix64(seed) ^ rank) ^ number), b = splitmix64(a);
  const auto uniform = [](std::uint64_t x) { return (static_cast<double>(x >> 11) + 0.5) * 0x1p-53; };
  const double normal = std::sqrt(-2 * std::log(uniform(a))) * std::cos(2 * 3.14159265358979323846 * uniform(b));
  return std::exp(sigma * normal - sigma * sigma / 2);
}

}  // namespace sluice
