#include "harness/plan/machines.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "harness/base/error.h"
#include "harness/pipeline/plan.h"

namespace sluice {

std::size_t few_enough_to_compare(int devices) {
  constexpr int most = 4096;
  if (devices > most)
    throw InputError("plan", std::to_string(devices) + " devices are too many to compare every pair of them",
                     "use at most " + std::to_string(most) + ", or another system");
  return static_cast<std::size_t>(devices);
}

Bandwidths::Bandwidths(const Cluster& cluster, int devices)
    : devices_(few_enough_to_compare(devices)),
      bandwidth_(devices_ * devices_, std::numeric_limits<double>::infinity()) {
  if (devices_ > cluster.devices.size())
    throw InputError("plan",
                     std::to_string(devices) + " devices of a cluster of " + std::to_string(cluster.devices.size()),
                     "use fewer devices or a larger cluster");
  Paths paths(cluster);
  for (std::size_t a = 0; a < devices_; ++a)
    for (std::size_t b = a + 1; b < devices_; ++b) {
      double& slowest = bandwidth_[a * devices_ + b];
      for (const Hop& hop : paths.between(DeviceId(a), DeviceId(b))) slowest = std::min(slowest, hop.link.bandwidth);
      bandwidth_[b * devices_ + a] = slowest;
    }
}

double Bandwidths::slowest() const { return *std::ranges::min_element(bandwidth_); }

double Bandwidths::across(const std::vector<DeviceId>& a, const std::vector<DeviceId>& b) const {
  double slowest = std::numeric_limits<double>::infinity();
  for (const DeviceId x : a)
    for (const DeviceId y : b) slowest = std::min(slowest, between(x, y));
  return slowest;
}

double Bandwidths::within(const std::vector<DeviceId>& devices) const { return across(devices, devices); }

namespace {

// Which group each device is in if links of at least `threshold` join; groups in order of their
// first device.
std::vector<std::vector<DeviceId>> groups_at(const Bandwidths& bandwidths, double threshold) {
  std::vector<std::vector<DeviceId>> groups;
  std::vector<bool> placed(bandwidths.devices());
  for (std::size_t first = 0; first < bandwidths.devices(); ++first) {
    if (placed[first]) continue;
    auto& group = groups.emplace_back(std::vector{DeviceId(first)});
    placed[first] = true;
    for (std::size_t next = 0; next < group.size(); ++next)
      for (std::size_t d = 0; d < bandwidths.devices(); ++d)
        if (!placed[d] && bandwidths.between(group[next], DeviceId(d)) >= threshold) {
          placed[d] = true;
          group.emplace_back(d);
        }
    std::ranges::sort(group);
  }
  return groups;
}

}  // namespace

MachineTree machine_tree(const Bandwidths& bandwidths) {
  std::set<double, std::greater<>> thresholds;
  for (std::size_t a = 0; a < bandwidths.devices(); ++a)
    for (std::size_t b = a + 1; b < bandwidths.devices(); ++b)
      thresholds.insert(bandwidths.between(DeviceId(a), DeviceId(b)));
  MachineTree tree;
  tree.order.resize(bandwidths.devices());
  for (std::size_t d = 0; d < tree.order.size(); ++d) tree.order[d] = DeviceId(d);
  std::size_t size = 1;
  for (const double threshold : thresholds) {
    const auto groups = groups_at(bandwidths, threshold);
    const std::size_t each = groups.front().size();
    const bool even = std::ranges::all_of(groups, [&](const auto& group) { return group.size() == each; });
    if (!even || each == size || each % size != 0) continue;
    // Smaller groups lie within larger ones, so a stable sort keeps them together.
    std::vector<std::size_t> group_of(bandwidths.devices());
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const DeviceId d : groups[g]) group_of[d.index()] = g;
    std::ranges::stable_sort(tree.order, {}, [&](DeviceId d) { return group_of[d.index()]; });
    tree.counts.push_back(static_cast<int>(each / size));
    tree.bandwidths.push_back(threshold);
    size = each;
  }
  if (tree.counts.empty()) {  // one device
    tree.counts = {1};
    tree.bandwidths = {std::numeric_limits<double>::infinity()};
  }
  return tree;
}

CostGraph costs_on_slowest(const CostGraph& costs, const Cluster& cluster, int devices) {
  std::vector<DeviceId> all;
  double slowest = std::numeric_limits<double>::infinity();
  for (int d = 0; d < devices; ++d) {
    all.emplace_back(d);
    slowest = std::min(slowest, cluster.devices[d].speed);
  }
  Plan layer_each;
  for (std::size_t l = 0; l < costs.layers.size(); ++l)
    layer_each.stages.push_back({.layers = {static_cast<int>(l)}, .devices = all});
  const std::vector<StageCost> on_slowest = stage_costs(layer_each, costs, cluster);
  CostGraph result = costs;
  for (std::size_t l = 0; l < result.layers.size(); ++l) {
    LayerCost& layer = result.layers[l];
    layer.forward = on_slowest[l].forward;
    layer.input_gradient = on_slowest[l].input_gradient;
    layer.weight_gradient = on_slowest[l].weight_gradient;
    layer.update = on_slowest[l].update;
    layer.on.clear();
    for (LayerVariant& v : layer.variants) v.seconds = v.seconds / slowest;
  }
  return result;
}

Cluster with_measured_speeds(Cluster cluster, const CostGraph& costs) {
  std::map<std::string, double> speeds;
  Plan whole{.stages = {PlanStage{}}};
  Seconds by_cost{};
  for (std::size_t l = 0; l < costs.layers.size(); ++l) {
    const LayerCost& layer = costs.layers[l];
    whole.stages[0].layers.push_back(static_cast<int>(l));
    by_cost += layer.forward + layer.input_gradient + layer.weight_gradient;
    for (const DeviceTime& time : layer.on) speeds[time.device] = 0;
  }
  for (std::size_t d = 0; d < cluster.devices.size(); ++d) {
    const auto measured = speeds.find(cluster.devices[d].name);
    if (measured == speeds.end()) continue;
    if (measured->second == 0) {
      whole.stages[0].devices = {DeviceId(d)};
      const StageCost cost = stage_costs(whole, costs, cluster).front();
      measured->second = by_cost.value / (cost.forward + cost.input_gradient + cost.weight_gradient).value;
    }
    cluster.devices[d].speed = measured->second;
  }
  return cluster;
}

double smallest_memory(const Cluster& cluster, int devices) {
  double least = std::numeric_limits<double>::infinity();
  for (int d = 0; d < devices; ++d) least = std::min(least, static_cast<double>(cluster.devices[d].memory.value));
  return least;
}

}  // namespace sluice
