#include "harness/plan/chain_partition.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include "harness/core/error.h"

namespace sluice {

std::vector<int> partition_chain(int layers, int stages,
                                 const std::function<double(int, int, int)>& stage_seconds,
                                 double* slowest) {
  if (stages < 1 || stages > layers)
    throw InputError("plan",
                     std::to_string(stages) + " stages for " + std::to_string(layers) + " layers",
                     "use at most as many stages as layers, and at least one");
  const auto n = static_cast<std::size_t>(layers);
  // best[s][l]: slowest stage when the first l layers form s stages; cut[s][l]: where the last one
  // begins.
  std::vector<std::vector<double>> best(
      static_cast<std::size_t>(stages) + 1,
      std::vector<double>(n + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<int>> cut(static_cast<std::size_t>(stages) + 1,
                                    std::vector<int>(n + 1, 0));
  best[0][0] = 0;
  for (int s = 1; s <= stages; ++s)
    for (int l = s; l <= layers - (stages - s); ++l)
      for (int first = s - 1; first < l; ++first) {
        const double before =
            best[static_cast<std::size_t>(s - 1)][static_cast<std::size_t>(first)];
        double& now = best[static_cast<std::size_t>(s)][static_cast<std::size_t>(l)];
        if (before >= now) continue;
        const double candidate = std::max(before, stage_seconds(first, l, s - 1));
        if (candidate < now) {
          now = candidate;
          cut[static_cast<std::size_t>(s)][static_cast<std::size_t>(l)] = first;
        }
      }
  if (!std::isfinite(best[static_cast<std::size_t>(stages)][n]))
    throw InputError("plan", "no cut of " + std::to_string(layers) + " layers into " +
                                 std::to_string(stages) + " stages takes a finite time");
  if (slowest) *slowest = best[static_cast<std::size_t>(stages)][n];
  std::vector<int> starts(static_cast<std::size_t>(stages) + 1, layers);
  for (int s = stages, l = layers; s > 0; --s) {
    l = cut[static_cast<std::size_t>(s)][static_cast<std::size_t>(l)];
    starts[static_cast<std::size_t>(s - 1)] = l;
  }
  return starts;
}

Plan balanced_chain(const Problem& problem, int stages, const std::string& where) {
  const auto begin = std::chrono::steady_clock::now();
  const auto& layers = problem.costs.layers;
  // Views and losses ride with the layer before them: a stage of nothing but a flatten would be a
  // message for nothing.
  std::vector<int> unit_start;
  std::vector<double> prefix{0};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const double seconds =
        (layers[i].forward + layers[i].input_gradient + layers[i].weight_gradient).value;
    const bool rides = layers[i].rides && !unit_start.empty();
    if (rides) {
      prefix.back() += seconds;
    } else {
      unit_start.push_back(static_cast<int>(i));
      prefix.push_back(prefix.back() + seconds);
    }
  }
  const int units = static_cast<int>(unit_start.size());
  if (stages < 1 || stages > units)
    throw InputError(where,
                     std::to_string(stages) + " stages for a model of " + std::to_string(units) +
                         " cuttable layers",
                     "use at most " + std::to_string(units) + " ranks");
  if (static_cast<std::size_t>(stages) > problem.cluster.devices.size())
    throw InputError(where,
                     std::to_string(stages) + " ranks on a cluster of " +
                         std::to_string(problem.cluster.devices.size()) + " devices",
                     "use fewer ranks or a larger cluster");
  Plan plan;
  plan.micro_batch = problem.costs.micro_batch;
  const std::vector<int> cuts = partition_chain(
      units, stages,
      [&](int first, int last, int stage) {
        return (prefix[static_cast<std::size_t>(last)] - prefix[static_cast<std::size_t>(first)]) /
               problem.cluster.devices[static_cast<std::size_t>(stage)].speed;
      },
      &plan.objective);
  for (int s = 0; s < stages; ++s) {
    const auto start_of = [&](int k) {
      const int unit = cuts[static_cast<std::size_t>(k)];
      return unit == units ? static_cast<int>(layers.size())
                           : unit_start[static_cast<std::size_t>(unit)];
    };
    PlanStage stage;
    stage.layers.resize(static_cast<std::size_t>(start_of(s + 1) - start_of(s)));
    std::iota(stage.layers.begin(), stage.layers.end(), start_of(s));
    stage.devices = {DeviceId(s)};
    plan.stages.push_back(stage);
  }
  plan.states = static_cast<std::int64_t>(stages) * units * units;
  plan.search_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return plan;
}

}  // namespace sluice
