#include "harness/plan/chain_partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/plan/layer_groups.h"
#include "harness/plan/rank_balance.h"

namespace sluice {

namespace {

using StageSeconds = std::function<double(int, int, int)>;

// best[s][l]: slowest stage when the first l layers form s stages; cut[s][l]: where the last one begins.
struct PartitionTable {
  std::vector<std::vector<double>> best;
  std::vector<std::vector<int>> cut;

  // fewer: also for all layers in fewer stages.
  PartitionTable(int layers, int stages, const StageSeconds& stage_seconds, bool fewer)
      : best(static_cast<std::size_t>(stages) + 1,
             std::vector<double>(static_cast<std::size_t>(layers) + 1, std::numeric_limits<double>::infinity())),
        cut(best.size(), std::vector<int>(best.front().size(), 0)) {
    best[0][0] = 0;
    for (int s = 1; s <= stages; ++s)
      for (int l = s; l <= (fewer ? layers : layers - (stages - s)); ++l)
        for (int first = s - 1; first < l; ++first) {
          const double before = best[s - 1][first];
          double& now = best[s][l];
          if (before >= now) continue;
          const double candidate = std::max(before, stage_seconds(first, l, s - 1));
          if (candidate < now) {
            now = candidate;
            cut[s][l] = first;
          }
        }
  }

  std::vector<int> starts(int layers, int stages) const {
    std::vector<int> result(static_cast<std::size_t>(stages) + 1, layers);
    for (int s = stages, l = layers; s > 0; --s) result[s - 1] = l = cut[s][l];
    return result;
  }
};

}  // namespace

std::vector<int> partition_chain(int layers, int stages, const StageSeconds& stage_seconds, double* slowest) {
  if (stages < 1 || stages > layers)
    throw InputError("plan", std::to_string(stages) + " stages for " + std::to_string(layers) + " layers",
                     "use at most as many stages as layers, and at least one");
  if (stages == layers) {  // the only cut; long uniform chains need no table
    std::vector<int> starts(static_cast<std::size_t>(stages) + 1, layers);
    double worst = 0;
    for (int s = 0; s < stages; ++s) {
      starts[s] = s;
      worst = std::max(worst, stage_seconds(s, s + 1, s));
    }
    if (slowest) *slowest = worst;
    if (std::isfinite(worst)) return starts;
  }
  const PartitionTable table(layers, stages, stage_seconds, false);
  const double best = table.best[stages][layers];
  if (!std::isfinite(best))
    throw InputError("plan", "no cut of " + std::to_string(layers) + " layers into " + std::to_string(stages) +
                                 " stages takes a finite time");
  if (slowest) *slowest = best;
  return table.starts(layers, stages);
}

std::vector<std::vector<int>> partitions_of_chain(int layers, int max_stages,
                                                  const std::function<double(int, int)>& seconds) {
  const PartitionTable table(
      layers, max_stages, [&](int first, int last, int) { return seconds(first, last); }, true);
  std::vector<std::vector<int>> all;
  for (int stages = 1; stages <= max_stages; ++stages) all.push_back(table.starts(layers, stages));
  return all;
}

namespace {

// A message and its gradient: twice the latency, and the seconds of a byte each way.
struct CutLink {
  double latency = 0, seconds_per_byte = 0;
};

// The slowest path between the devices of a stage and those of the one before; none where they share a device.
CutLink link_between(Paths& paths, const std::vector<DeviceId>& before, const std::vector<DeviceId>& stage) {
  CutLink slowest;
  for (const DeviceId a : before)
    for (const DeviceId b : stage) {
      CutLink link;
      if (a == b) continue;
      for (const Hop& hop : paths.between(a, b)) {
        link.latency += hop.link.latency.value;
        link.seconds_per_byte = std::max(link.seconds_per_byte, 1 / hop.link.bandwidth);
      }
      slowest.latency = std::max(slowest.latency, link.latency);
      slowest.seconds_per_byte = std::max(slowest.seconds_per_byte, link.seconds_per_byte);
    }
  return slowest;
}

// Per stage: over the cut before it; none before the first.
std::vector<CutLink> links_before(const Problem& problem, const std::vector<std::vector<DeviceId>>& stage_devices) {
  std::vector<CutLink> links(stage_devices.size());
  if (!problem.cuts_count_messages) return links;
  Paths paths(problem.cluster);
  for (std::size_t s = 1; s < links.size(); ++s) links[s] = link_between(paths, stage_devices[s - 1], stage_devices[s]);
  return links;
}

// The groups before which the problem lets balanced cuts be, and the number of groups.
std::vector<int> places_of_cuts(const Problem& problem, const LayerGroupGraph& graph) {
  std::vector<int> places;
  const bool any = problem.cut_before.empty() || !problem.first_layers.empty();
  for (int g = 0; g < count_of(graph.groups); ++g)
    if (g == 0 || any || std::ranges::binary_search(problem.cut_before, graph.groups[g].layers.front()))
      places.push_back(g);
  places.push_back(count_of(graph.groups));
  return places;
}

// The groups with which the given stages begin, and the number of groups: as partition_chain() returns them.
std::vector<int> given_cuts(const Problem& problem, const LayerGroupGraph& graph, std::size_t stages,
                            const std::string& system) {
  if (problem.first_layers.size() + 1 != stages)
    throw InputError("stages",
                     fmt::format("{} stages are given, and {} cuts the model into {}", problem.first_layers.size() + 1,
                                 system, stages),
                     fmt::format("give {} first layers, those of all stages but the first", stages - 1));
  std::vector<int> starts{0};
  for (const int layer : problem.first_layers) {
    const auto group = std::ranges::find(graph.groups, layer, [](const LayerGroup& g) { return g.layers.front(); });
    if (group == graph.groups.end())
      throw InputError("stages",
                       fmt::format("no stage can begin with layer {} of a model of layers 0 to {}", layer,
                                   problem.costs.layers.size() - 1),
                       "give the layer before it where it is a view or a loss: they stay with that one");
    starts.push_back(static_cast<int>(group - graph.groups.begin()));
  }
  starts.push_back(static_cast<int>(graph.groups.size()));
  return starts;
}

}  // namespace

Plan chain_on(const Problem& problem, const std::vector<std::vector<DeviceId>>& stage_devices,
              const std::string& where) {
  const LayerGroupGraph graph = layer_groups(problem.costs);
  // Stages are made of pieces; piece k is the groups from places[k] on.
  const std::vector<int> places = places_of_cuts(problem, graph);
  std::vector<double> prefix{0};  // seconds of all pieces before each
  for (std::size_t k = 0; k + 1 < places.size(); ++k) {
    prefix.push_back(prefix.back());
    for (const int l : layers_of(graph, places[k], places[k + 1])) {
      const LayerCost& layer = problem.costs.layers[l];
      prefix.back() += (layer.forward + layer.input_gradient + layer.weight_gradient).value;
    }
  }
  const int pieces = count_of(places) - 1, stages = static_cast<int>(stage_devices.size());
  std::set<DeviceId> used;
  for (const auto& devices : stage_devices) used.insert(devices.begin(), devices.end());
  const int ranks = static_cast<int>(used.size());
  if (stages < 1 || stages > pieces) {
    const std::string most = stages > ranks ? std::to_string(std::max(1, pieces * ranks / std::max(1, stages))) +
                                                  " ranks with " + std::to_string(stages / ranks) + " stages on each"
                                            : std::to_string(pieces) + " ranks";
    throw InputError(where,
                     std::to_string(stages) + " stages for a model of " + std::to_string(pieces) +
                         (problem.cut_before.empty() ? " cuttable layers" : " cuttable blocks"),
                     "use at most " + most);
  }
  if (used.rbegin()->index() >= problem.cluster.devices.size())
    throw InputError(
        where,
        std::to_string(ranks) + " ranks on a cluster of " + std::to_string(problem.cluster.devices.size()) + " devices",
        "use fewer ranks or a larger cluster");
  std::vector<double> speed;  // of a stage: that of its slowest device
  for (const auto& devices : stage_devices) {
    speed.push_back(std::numeric_limits<double>::infinity());
    for (const DeviceId d : devices) speed.back() = std::min(speed.back(), problem.cluster.devices[d.index()].speed);
  }
  const std::vector<CutLink> links = links_before(problem, stage_devices);
  const std::vector<double> crossing = bytes_over_cuts(graph);
  const double ways = problem.inference ? 1 : 2;
  double slowest = 0;
  const auto stage_seconds = [&](int first, int last, int stage) {
    const double message = links[stage].latency + crossing[places[first]] * links[stage].seconds_per_byte;
    return (prefix[last] - prefix[first]) / speed[stage] + ways * message;
  };
  const bool given = !problem.first_layers.empty();
  const std::vector<int> cuts = given ? given_cuts(problem, graph, stage_devices.size(), where)
                                      : partition_chain(pieces, stages, stage_seconds, &slowest);
  for (int s = 0; given && s < stages; ++s) slowest = std::max(slowest, stage_seconds(cuts[s], cuts[s + 1], s));
  const auto plan_of = [&](const std::vector<int>& starts) {
    Plan plan;
    plan.micro_batch = problem.costs.micro_batch;
    for (std::size_t s = 0; s < stage_devices.size(); ++s)
      plan.stages.push_back(
          {.layers = layers_of(graph, places[starts[s]], places[starts[s + 1]]), .devices = stage_devices[s]});
    plan.search.objective = slowest;
    plan.search.states = static_cast<std::int64_t>(stages) * pieces * pieces;
    return plan;
  };
  const bool one_device_each = std::ranges::all_of(stage_devices, [](const auto& d) { return d.size() == 1; });
  if (given || ranks == stages || !one_device_each) return plan_of(cuts);
  // Several stages on a rank: it is as slow as their sum.
  std::vector<int> rank_of;
  for (const auto& devices : stage_devices) rank_of.push_back(devices.front().value);
  const std::vector<int> together = balanced_over_ranks(cuts, prefix, rank_of, speed);
  Plan by_stage = plan_of(cuts), by_rank = plan_of(together);
  for (Plan* plan : {&by_stage, &by_rank}) plan->search.objective_name = "slowest rank";
  by_stage.search.objective = balance_of(cuts, prefix, rank_of, speed).slowest;
  by_rank.search.objective = balance_of(together, prefix, rank_of, speed).slowest;
  // Uneven stages may cost more in filling the pipe than the even ranks gain: the virtual clock decides.
  if (together == cuts || !problem.simulate || problem.simulate(by_rank) <= problem.simulate(by_stage)) return by_rank;
  return by_stage;
}

Plan balanced_chain(const Problem& problem, int stages, const std::string& where) {
  std::vector<std::vector<DeviceId>> devices;
  for (int s = 0; s < stages; ++s) devices.push_back({DeviceId(s)});
  return chain_on(problem, devices, where);
}

// The device of every stage.
static std::vector<DeviceId> devices_of_stages(int devices, int chunks, ChunkPlacement placement) {
  std::vector<DeviceId> of;
  for (int c = 0; c < chunks; ++c)
    for (int k = 0; k < devices; ++k) {
      const bool back = placement == ChunkPlacement::wave && c % 2 == 1;
      of.emplace_back(back ? devices - 1 - k : k);
    }
  return of;
}

Plan chunked_chain(const Problem& problem, int chunks, ChunkPlacement placement, const std::string& where) {
  const std::int64_t stages = static_cast<std::int64_t>(chunks) * problem.devices;
  const auto layers = static_cast<std::int64_t>(problem.costs.layers.size());
  if (stages > layers)  // chain_on() says it too, once it has them all
    throw InputError(where, std::to_string(stages) + " stages for a model of " + std::to_string(layers) + " layers",
                     "use fewer ranks, or fewer stages on each than " + std::to_string(chunks));
  std::vector<std::vector<DeviceId>> devices;
  for (const DeviceId device : devices_of_stages(problem.devices, chunks, placement)) devices.push_back({device});
  return chain_on(problem, devices, where);
}

Plan bidirectional_chain(const Problem& problem, const std::vector<std::size_t>& replica_of, const std::string& where,
                         int chunks) {
  std::vector<std::vector<DeviceId>> devices;
  for (const DeviceId down : devices_of_stages(problem.devices, chunks, ChunkPlacement::wave))
    devices.push_back({down, DeviceId(problem.devices - 1 - down.value)});
  Plan plan = chain_on(problem, devices, where);
  plan.rank_order = devices_of_stages(problem.devices, 1, ChunkPlacement::loop);
  plan.replica_of = replica_of;
  return plan;
}

}  // namespace sluice
