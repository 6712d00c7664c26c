#include "harness/case/expert_costs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "harness/model/expert_spread.h"

namespace sluice {

std::vector<std::vector<DeviceId>> groups_of_experts(int devices, const PipelineReplicas& replicas) {
  const int pipeline = devices / replicas.count;
  std::vector<std::vector<DeviceId>> groups(static_cast<std::size_t>(pipeline));
  for (int k = 0; k < pipeline; ++k)
    for (int d = 0; d < replicas.count; ++d) groups[k].emplace_back(rank_in_replica(k, d, pipeline, replicas));
  return groups;
}

// What transfers share, as in a route of sim/network.h: a link or a group of links, and its direction, seen from the
// group's own end.
using Medium = std::tuple<bool, std::size_t, bool>;

static std::vector<Medium> media_of(const Hop& hop) {
  const Link& link = hop.link;
  const bool there = link.duplex && !hop.reversed, back = link.duplex && hop.reversed;
  std::vector<Medium> media;
  if (link.group >= 0) media.emplace_back(true, static_cast<std::size_t>(link.group), back);
  if (link.to_group >= 0) media.emplace_back(true, static_cast<std::size_t>(link.to_group), there);
  if (media.empty()) media.emplace_back(false, hop.number, back);
  return media;
}

Seconds all_to_all_seconds(const Cluster& cluster, const std::vector<DeviceId>& members, Bytes bytes) {
  Paths paths(cluster);
  const std::size_t n = members.size();
  const double part = static_cast<double>(bytes.value) / static_cast<double>(n);
  Seconds all;
  for (std::size_t step = 1; step < n; ++step) {
    std::map<Medium, double> busy;  // seconds
    Seconds latency;
    double longest = 0;
    for (std::size_t k = 0; k < n; ++k) {
      Seconds own;
      for (const Hop& hop : paths.between(members[k], members[(k + step) % n])) {
        own += hop.link.latency;
        for (const Medium& medium : media_of(hop))
          longest = std::max(longest, busy[medium] += part / hop.link.bandwidth);
      }
      latency = std::max(latency, own);
    }
    all += latency + Seconds(longest);
  }
  return all;
}

CostGraph spread_costs(const CostGraph& whole, const ModelGraph& model, const ModelGraph& spread,
                       const Cluster& cluster, const std::vector<std::vector<DeviceId>>& groups,
                       const CostFormula& formula) {
  const CostGraph whole_by_formula = formula(model), by_formula = formula(spread);
  const std::vector<ExpertExchanges> exchanges = expert_exchanges(spread);
  const auto scaled = [](Seconds measured, Seconds of_part, Seconds of_whole) {
    return of_whole.value > 0 ? Seconds(measured.value * of_part.value / of_whole.value) : measured;
  };
  const auto seconds = [&](const std::vector<std::int64_t>& elements) {
    Seconds sum;
    for (const std::int64_t n : elements) {
      const Bytes bytes = n * whole.micro_batch * whole.storage.activation;
      Seconds slowest;
      for (const std::vector<DeviceId>& group : groups)
        slowest = std::max(slowest, whole.machine ? Seconds(whole.machine->copy * static_cast<double>(bytes.value))
                                                  : all_to_all_seconds(cluster, group, bytes));
      sum += slowest;
    }
    return sum;
  };
  CostGraph result = whole;
  for (std::size_t l = 0; l < spread.layers.size(); ++l) {
    const int replicas = replicas_of_experts(spread.layers[l]);
    if (replicas == 1) continue;
    const LayerCost &own = by_formula.layers[l], &all = whole_by_formula.layers[l];
    LayerCost& layer = result.layers[l];
    const Seconds forward = seconds(exchanges[l].forward), input_gradient = seconds(exchanges[l].input_gradient);
    layer.forward = scaled(layer.forward, own.forward, all.forward) + forward;
    layer.input_gradient = scaled(layer.input_gradient, own.input_gradient, all.input_gradient) + input_gradient;
    layer.weight_gradient = scaled(layer.weight_gradient, own.weight_gradient, all.weight_gradient);
    layer.on = own.on;
    for (DeviceTime& time : layer.on) {
      time.forward += forward;
      time.input_gradient += input_gradient;
    }
    layer.update = scaled(layer.update, own.update, all.update);
    layer.parameters = own.parameters;
    // What all replicas hold together is d times the own part and the rest once.
    layer.own = Bytes((all.parameters - own.parameters).value / (replicas - 1));
    if (!layer.measured) continue;
    const double held = static_cast<double>(own.parameters.value) / static_cast<double>(all.parameters.value);
    layer.measured->clear = layer.measured->clear * held;
    layer.measured->update.peak = Bytes(std::llround(static_cast<double>(layer.measured->update.peak.value) * held));
    // A forward also keeps the rows that it has received, in addition to those that it has sent.
    const Bytes received = exchanges[l].forward.front() * whole.micro_batch * whole.storage.activation;
    layer.measured->forward.left += received;
    layer.measured->forward.peak += 2 * received;
  }
  return result;
}

}  // namespace sluice
