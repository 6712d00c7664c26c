#include "harness/plan/chain_partition.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "harness/base/error.h"

namespace sluice {

std::vector<int> partition_chain(int layers, int stages, const std::function<double(int, int, int)>& stage_seconds,
                                 double* slowest) {
  if (stages < 1 || stages > layers)
    throw InputError("plan", std::to_string(stages) + " stages for " + std::to_string(layers) + " layers",
                     "use at most as many stages as layers, and at least one");
  const auto n = static_cast<std::size_t>(layers);
  std::vector<int> starts(static_cast<std::size_t>(stages) + 1, layers);
  if (stages == layers) {  // the only cut; long uniform chains need no table
    double worst = 0;
    for (int s = 0; s < stages; ++s) {
      starts[static_cast<std::size_t>(s)] = s;
      worst = std::max(worst, stage_seconds(s, s + 1, s));
    }
    if (slowest) *slowest = worst;
    if (std::isfinite(worst)) return starts;
  }
  // best[s][l]: slowest stage when the first l layers form s stages; cut[s][l]: where the last one
  // begins.
  std::vector<std::vector<double>> best(static_cast<std::size_t>(stages) + 1,
                                        std::vector<double>(n + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<int>> cut(static_cast<std::size_t>(stages) + 1, std::vector<int>(n + 1, 0));
  best[0][0] = 0;
  for (int s = 1; s <= stages; ++s)
    for (int l = s; l <= layers - (stages - s); ++l)
      for (int first = s - 1; first < l; ++first) {
        const double before = best[static_cast<std::size_t>(s - 1)][static_cast<std::size_t>(first)];
        double& now = best[static_cast<std::size_t>(s)][static_cast<std::size_t>(l)];
        if (before >= now) continue;
        const double candidate = std::max(before, stage_seconds(first, l, s - 1));
        if (candidate < now) {
          now = candidate;
          cut[static_cast<std::size_t>(s)][static_cast<std::size_t>(l)] = first;
        }
      }
  if (!std::isfinite(best[static_cast<std::size_t>(stages)][n]))
    throw InputError("plan", "no cut of " + std::to_string(layers) + " layers into " + std::to_string(stages) +
                                 " stages takes a finite time");
  if (slowest) *slowest = best[static_cast<std::size_t>(stages)][n];
  for (int s = stages, l = layers; s > 0; --s) {
    l = cut[static_cast<std::size_t>(s)][static_cast<std::size_t>(l)];
    starts[static_cast<std::size_t>(s - 1)] = l;
  }
  return starts;
}

Plan chain_on(const Problem& problem, const std::vector<std::vector<DeviceId>>& stage_devices,
              const std::string& where) {
  const auto begin = std::chrono::steady_clock::now();
  const auto& layers = problem.costs.layers;
  // Views and losses ride with the layer before them: a stage of nothing but a flatten would be a
  // message for nothing.
  std::vector<int> unit_start;
  std::vector<double> prefix{0};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const double seconds = (layers[i].forward + layers[i].input_gradient + layers[i].weight_gradient).value;
    const bool fused = layers[i].fused && !unit_start.empty();
    if (fused) {
      prefix.back() += seconds;
    } else {
      unit_start.push_back(static_cast<int>(i));
      prefix.push_back(prefix.back() + seconds);
    }
  }
  const int units = static_cast<int>(unit_start.size()), stages = static_cast<int>(stage_devices.size());
  std::set<DeviceId> used;
  for (const auto& devices : stage_devices) used.insert(devices.begin(), devices.end());
  const int ranks = static_cast<int>(used.size());
  if (stages < 1 || stages > units) {
    const std::string most = stages > ranks ? std::to_string(std::max(1, units * ranks / std::max(1, stages))) +
                                                  " ranks with " + std::to_string(stages / ranks) + " stages on each"
                                            : std::to_string(units) + " ranks";
    throw InputError(where,
                     std::to_string(stages) + " stages for a model of " + std::to_string(units) + " cuttable layers",
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
  Plan plan;
  plan.micro_batch = problem.costs.micro_batch;
  const std::vector<int> cuts = partition_chain(
      units, stages,
      [&](int first, int last, int stage) {
        return (prefix[static_cast<std::size_t>(last)] - prefix[static_cast<std::size_t>(first)]) /
               speed[static_cast<std::size_t>(stage)];
      },
      &plan.objective);
  for (int s = 0; s < stages; ++s) {
    const auto start_of = [&](int k) {
      const int unit = cuts[static_cast<std::size_t>(k)];
      return unit == units ? static_cast<int>(layers.size()) : unit_start[static_cast<std::size_t>(unit)];
    };
    PlanStage stage;
    stage.layers.resize(static_cast<std::size_t>(start_of(s + 1) - start_of(s)));
    std::iota(stage.layers.begin(), stage.layers.end(), start_of(s));
    stage.devices = stage_devices[static_cast<std::size_t>(s)];
    plan.stages.push_back(stage);
  }
  plan.states = static_cast<std::int64_t>(stages) * units * units;
  plan.search_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return plan;
}

Plan balanced_chain(const Problem& problem, int stages, const std::string& where) {
  std::vector<std::vector<DeviceId>> devices;
  for (int s = 0; s < stages; ++s) devices.push_back({DeviceId(s)});
  return chain_on(problem, devices, where);
}

Plan chunked_chain(const Problem& problem, int chunks, ChunkPlacement placement, const std::string& where) {
  const std::int64_t stages = static_cast<std::int64_t>(chunks) * problem.devices;
  const auto layers = static_cast<std::int64_t>(problem.costs.layers.size());
  if (stages > layers)  // chain_on() says it too, once it has them all
    throw InputError(where, std::to_string(stages) + " stages for a model of " + std::to_string(layers) + " layers",
                     "use fewer ranks, or fewer stages on each than " + std::to_string(chunks));
  std::vector<std::vector<DeviceId>> devices;
  for (int c = 0; c < chunks; ++c)
    for (int k = 0; k < problem.devices; ++k) {
      const bool back = placement == ChunkPlacement::wave && c % 2 == 1;
      devices.push_back({DeviceId(back ? problem.devices - 1 - k : k)});
    }
  return chain_on(problem, devices, where);
}

Plan bidirectional_chain(const Problem& problem, const std::vector<std::size_t>& replica_of, const std::string& where) {
  std::vector<std::vector<DeviceId>> devices;
  std::vector<DeviceId> order;
  for (int s = 0; s < problem.devices; ++s) {
    order.emplace_back(s);
    devices.push_back({DeviceId(s), DeviceId(problem.devices - 1 - s)});
  }
  Plan plan = chain_on(problem, devices, where);
  plan.rank_order = order;
  plan.replica_of = replica_of;
  return plan;
}

}  // namespace sluice
