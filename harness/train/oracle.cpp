#include "harness/train/oracle.h"

#include <algorithm>
#include <limits>
#include <map>

#include "harness/case/make_program.h"
#include "harness/case/predict_update.h"
#include "harness/case/prepare.h"
#include "harness/plan/make_plan.h"
#include "harness/sim/simulate.h"

namespace sluice {

namespace {

// Seconds of an update once the pipe is full: the mean of the second half of some.
double full_pipe_update(const Prepared& p) {
  const int updates = 16 * static_cast<int>(p.ranks.devices.size());
  const Simulation s = simulate(make_program(p, updates * p.microbatches_per_update), costs_of(p), p.cluster,
                                p.ranks.devices, {.trace = false});
  const std::size_t half = s.update_end.size() / 2;
  return (s.update_end.back() - s.update_end[half - 1]) / static_cast<double>(s.update_end.size() - half);
}

// With every device at a part of its speed.
double best_update(const RunCase& c, const Prepared& prepared, std::span<const Plan> plans,
                   const std::vector<double>& speeds) {
  Prepared p = prepared;
  p.interference = {};
  for (Cluster* cluster : {&p.cluster, &p.planned_cluster})
    for (std::size_t r = 0; r < speeds.size() && !cluster->devices.empty(); ++r)
      cluster->devices[p.ranks.devices[r].index()].speed *= speeds[r];
  double best = std::numeric_limits<double>::infinity();
  const auto consider = [&](const auto& plan) {
    adopt_pipeline(p, plan);
    best = std::min(best, full_pipe_update(p));
  };
  for (const Plan& plan : plans) consider(plan);
  consider(make_plan(*p.system, problem_of(p, c), p.options));
  return best;
}

}  // namespace

std::optional<double> oracle_seconds(const RunCase& c, const Prepared& prepared, std::span<const Plan> plans,
                                     std::int64_t updates) {
  for (const Episode& e : prepared.interference.episodes)
    if (e.resource == Resource::link) return std::nullopt;
  std::vector<PiecewiseSpeed> devices;
  std::vector<double> moments{0};
  for (const DeviceId device : prepared.ranks.devices) {
    devices.push_back(prepared.interference.device_speed(device));
    for (const auto& change : devices.back().changes())
      if (change.from > 0) moments.push_back(change.from);
  }
  std::ranges::sort(moments);
  moments.erase(std::ranges::unique(moments).begin(), moments.end());
  std::map<std::vector<double>, double> known;
  auto left = static_cast<double>(updates);
  for (std::size_t m = 0; m < moments.size(); ++m) {
    std::vector<double> speeds;
    for (const PiecewiseSpeed& speed : devices) speeds.push_back(speed.at(moments[m]));
    const auto [found, is_new] = known.try_emplace(speeds, 0.0);
    if (is_new) found->second = best_update(c, prepared, plans, speeds);
    const double until = m + 1 < moments.size() ? moments[m + 1] : std::numeric_limits<double>::infinity();
    const double done = (until - moments[m]) / found->second;
    if (done >= left) return moments[m] + left * found->second;
    left -= done;
  }
  return std::nullopt;
}

}  // namespace sluice
