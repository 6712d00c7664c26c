#include "harness/plan/operators.h"

#include <algorithm>
#include <set>

#include "harness/core/error.h"

namespace sluice {

Operators::Operators(const CostGraph& costs) : costs_(costs) {
  const std::size_t n = costs.layers.size();
  of_layer_.assign(n, -1);
  consumers_.resize(n);
  for (std::size_t l = 0; l < n; ++l)
    for (const int p : costs.layers[l].inputs)
      if (p >= 0) consumers_[static_cast<std::size_t>(p)].push_back(static_cast<int>(l));
  std::vector<bool> is_view_of_input(n, false);
  for (std::size_t l = 0; l < n; ++l) {
    const LayerCost& layer = costs.layers[l];
    const int first = layer.inputs.empty() ? -1 : layer.inputs.front();
    const auto before = static_cast<std::size_t>(std::max(first, 0));
    is_view_of_input[l] = layer.rides && (first < 0 || is_view_of_input[before]);
    const bool claims = first >= 0 && is_view_of_input[before] && consumers_[before].size() == 1;
    if (first >= 0 && (layer.rides || claims)) {
      of_layer_[l] = of_layer_[before];
    } else {
      of_layer_[l] = static_cast<int>(layers.size());
      layers.emplace_back();
    }
    layers[static_cast<std::size_t>(of_layer_[l])].push_back(static_cast<int>(l));
  }
  std::set<std::pair<int, int>> unique;
  for (std::size_t l = 0; l < n; ++l)
    for (const int p : costs.layers[l].inputs)
      if (p >= 0 && of_layer_[static_cast<std::size_t>(p)] != of_layer_[l])
        unique.insert({of_layer_[static_cast<std::size_t>(p)], of_layer_[l]});
  edges.assign(unique.begin(), unique.end());
}

std::vector<int> Operators::layers_of(std::span<const int> operators) const {
  std::vector<int> result;
  for (const int o : operators) {
    const auto& own = layers[static_cast<std::size_t>(o)];
    result.insert(result.end(), own.begin(), own.end());
  }
  std::ranges::sort(result);
  return result;
}

std::vector<int> Operators::crossing(std::span<const int> inside) const {
  std::vector<bool> in(of_layer_.size(), false);
  for (const int l : inside) in[static_cast<std::size_t>(l)] = true;
  const auto is_inside = [&](int l) { return in[static_cast<std::size_t>(l)]; };
  std::vector<int> result;
  for (const int l : inside) {
    for (const int p : costs_.layers[static_cast<std::size_t>(l)].inputs)
      if (p >= 0 && !is_inside(p) && std::ranges::find(result, p) == result.end())
        result.push_back(p);
    if (!std::ranges::all_of(consumers_[static_cast<std::size_t>(l)], is_inside))
      result.push_back(l);
  }
  return result;
}

NeighbourMachine::NeighbourMachine(const Problem& problem, const std::string& where)
    : cluster_(problem.cluster), paths_(problem.cluster), devices_(problem.devices) {
  if (devices_ < 1 || static_cast<std::size_t>(devices_) > cluster_.devices.size())
    throw InputError(where,
                     std::to_string(devices_) + " ranks on a cluster of " +
                         std::to_string(cluster_.devices.size()) + " devices",
                     "use fewer ranks or a larger cluster");
  speed = cluster_.devices[0].speed;
  memory = cluster_.devices[0].memory;
  for (const Device& device :
       std::span(cluster_.devices).first(static_cast<std::size_t>(devices_))) {
    speed = std::min(speed, device.speed);
    memory = std::min(memory, device.memory);
  }
  for (int d = 0; d + 1 < devices_; ++d) {
    const LinkCost hop = between(d, d + 1);
    neighbour.latency += hop.latency / (devices_ - 1);
    neighbour.seconds_per_byte += hop.seconds_per_byte / (devices_ - 1);
  }
}

LinkCost NeighbourMachine::ring(int degree) {
  LinkCost mean;
  const int places = devices_ - degree + 1;
  for (int first = 0; degree > 1 && first < places; ++first) {
    LinkCost slowest;
    for (int k = 0; k < degree; ++k) {
      const LinkCost hop = between(first + k, first + (k + 1) % degree);
      slowest.latency = std::max(slowest.latency, hop.latency);
      slowest.seconds_per_byte = std::max(slowest.seconds_per_byte, hop.seconds_per_byte);
    }
    mean.latency += slowest.latency / places;
    mean.seconds_per_byte += slowest.seconds_per_byte / places;
  }
  return mean;
}

LinkCost NeighbourMachine::between(int a, int b) {
  LinkCost cost;
  for (const Hop& hop : paths_.between(DeviceId(a), DeviceId(b))) {
    const Link& link = cluster_.links[hop.link];
    cost.latency += link.latency.value;
    cost.seconds_per_byte = std::max(cost.seconds_per_byte, 1 / link.bandwidth);
  }
  return cost;
}

}  // namespace sluice
