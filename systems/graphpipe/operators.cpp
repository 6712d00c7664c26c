#include "systems/graphpipe/operators.h"

#include <algorithm>
#include <map>

#include "harness/base/error.h"
#include "harness/plan/search.h"

namespace sluice {

template <class T>
static void sort_unique(std::vector<T>& values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

Operators::Operators(const CostGraph& costs) {
  LayerGroupGraph graph = layer_groups_by_producer(costs);
  sent_.resize(graph.groups.size());
  received_.resize(graph.groups.size());
  std::map<int, Output> outputs;  // by layer
  for (const LayerGroupEdge& e : graph.edges) {
    Output& output = outputs[e.producer];
    output.layer = e.producer;
    output.from = e.from;
    output.to.push_back(e.to);
    output.bytes = static_cast<double>(costs.layers[e.producer].output.value);
    edges.emplace_back(e.from, e.to);
  }
  for (auto& [layer, output] : outputs) {
    sort_unique(output.to);
    const int index = static_cast<int>(outputs_.size());
    sent_[output.from].push_back(index);
    for (const int to : output.to) received_[to].push_back(index);
    outputs_.push_back(std::move(output));
  }
  sort_unique(edges);
  groups = std::move(graph.groups);
}

std::vector<int> Operators::layers_of(std::span<const int> operators) const {
  std::vector<int> result;
  for (const int o : operators) {
    const auto& own = groups[o].layers;
    result.insert(result.end(), own.begin(), own.end());
  }
  std::ranges::sort(result);
  return result;
}

std::vector<int> Operators::places(std::span<const int> operators) const {
  std::vector<int> result(groups.size(), -1);
  int place = 0;
  for (const int o : operators) result[o] = place++;
  return result;
}

std::vector<int> Operators::crossing(std::span<const int> operators) const {
  const std::vector<int> place = places(operators);
  const auto is_outside = [&](int o) { return place[o] < 0; };
  std::vector<int> result;
  for (const int o : operators) {
    for (const int i : received_[o]) {
      const Output& output = outputs_[i];
      // Once, for the first of those here that read it.
      const auto first = std::ranges::find_if_not(output.to, is_outside);
      if (is_outside(output.from) && *first == o) result.push_back(output.layer);
    }
    for (const int i : sent_[o]) {
      const Output& output = outputs_[i];
      if (std::ranges::any_of(output.to, is_outside)) result.push_back(output.layer);
    }
  }
  return result;
}

std::vector<double> Operators::signature(std::span<const int> operators) const {
  const std::vector<int> place = places(operators);
  std::vector<double> result;
  std::vector<int> outside;  // outputs of others, as they are first read
  for (const int o : operators) {
    for (const int i : received_[o]) {
      const Output& output = outputs_[i];
      const int from = place[output.from];
      if (from >= 0) {
        const auto& all = sent_[output.from];
        result.push_back(from);
        result.push_back(static_cast<double>(std::ranges::find(all, i) - all.begin()));
        continue;
      }
      const auto known = std::ranges::find(outside, i);
      result.push_back(-1 - static_cast<double>(known - outside.begin()));
      result.push_back(output.bytes);
      if (known == outside.end()) outside.push_back(i);
    }
    for (const int i : sent_[o]) {
      const Output& output = outputs_[i];
      result.push_back(output.bytes);
      result.push_back(std::ranges::any_of(output.to, [&](int to) { return place[to] < 0; }));
    }
    result.push_back(kNever);  // ends the operator
  }
  return result;
}

NeighbourMachine::NeighbourMachine(const Problem& problem, const std::string& where)
    : cluster_(problem.cluster), paths_(problem.cluster), devices_(problem.devices) {
  if (devices_ < 1 || static_cast<std::size_t>(devices_) > cluster_.devices.size())
    throw InputError(
        where,
        std::to_string(devices_) + " ranks on a cluster of " + std::to_string(cluster_.devices.size()) + " devices",
        "use fewer ranks or a larger cluster");
  speed = cluster_.devices[0].speed;
  memory = cluster_.devices[0].memory;
  for (const Device& device : std::span(cluster_.devices).first(static_cast<std::size_t>(devices_))) {
    speed = std::min(speed, device.speed);
    memory = std::min(memory, device.memory);
  }
  for (int d = 0; d + 1 < devices_; ++d) {
    const LinkCost& hop = hops_.emplace_back(between(d, d + 1));
    neighbour.latency += hop.latency / (devices_ - 1);
    neighbour.seconds_per_byte += hop.seconds_per_byte / (devices_ - 1);
  }
}

LinkCost NeighbourMachine::ring(int degree) {
  LinkCost mean;
  const int places = devices_ - degree + 1;
  for (int first = 0; degree > 1 && first < places; ++first) {
    const int last = first + degree - 1;
    LinkCost slowest = between(last, first);  // closes the ring
    for (int d = first; d < last; ++d) {
      const LinkCost& hop = hops_[d];
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
    const Link& link = hop.link;
    cost.latency += link.latency.value;
    cost.seconds_per_byte = std::max(cost.seconds_per_byte, 1 / link.bandwidth);
  }
  return cost;
}

}  // namespace sluice
