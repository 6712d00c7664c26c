#include "harness/case/co_run_profile.h"

#include <numeric>

#include "harness/model/cost_graph.h"

namespace sluice {

CoRunProfile measure_co_run_profile(const ProfileKey& key, const Workload& workload, double seconds) {
  constexpr int kPairs = 24;
  CoRunSpec spec;
  spec.model = workload.model;
  spec.micro_batch = key.micro_batch;
  spec.optimizer = key.optimizer;
  spec.feed = feed_for_profile(workload);
  spec.seconds = seconds / spec.rounds;
  spec.loads = co_run_loads(std::max(co_run_cores(), 1));
  const CoRunSamples samples = measure_co_runs(spec);
  const LayerGroupGraph graph = layer_groups(analytic_costs(workload.model, key.micro_batch, Device{}));
  const double alone = std::accumulate(samples.alone.begin(), samples.alone.end(), 0.0);
  CoRunProfile profile;
  for (std::size_t l = 0; l < spec.loads.size(); ++l) {
    const std::vector<double>& contended = samples.contended[l];
    profile.loads.push_back({.load = spec.loads[l],
                             .slowdown = std::accumulate(contended.begin(), contended.end(), 0.0) / alone,
                             .rows = co_run_rows(graph, {samples.alone, contended}, kPairs, l)});
  }
  return profile;
}

ForestRows rows_of(const CoRunProfile& profile) {
  ForestRows all;
  for (const CoRunProfile::Load& load : profile.loads) all = joined_rows(all, load.rows);
  return all;
}

std::optional<HeldOutLoads> hold_out(const CoRunProfile& profile, const ForestRows& published) {
  std::vector<ForestRows> parts;
  for (const CoRunProfile::Load& load : profile.loads) parts.push_back(load.rows);
  return hold_out_loads(parts, published, slowdown_forest_options());
}

Json to_json(const CoRunProfile& profile, const ProfileKey& key, const std::optional<HeldOutLoads>& error) {
  Json json = co_run_json(rows_of(profile));
  json["workload"] = key.workload;
  json["micro_batch"] = key.micro_batch;
  json["machine"] = machine_signature();
  json["build"] = build_signature();
  Json loads = Json::array();
  for (const CoRunProfile::Load& load : profile.loads)
    loads.push_back({{"resource", choice_name(load.load.resource)},
                     {"share_for_slowdown", load.load.slowdown},
                     {"core", load.load.own_core ? "own" : "other"},
                     {"slowdown", load.slowdown},
                     {"rows", load.rows.y.size()}});
  json["loads"] = std::move(loads);
  if (error)
    json["held_out"] = {{"loads_learned", error->learned},
                        {"loads_held_out", error->held_out},
                        {"mean_squared_error", error->error.mean_squared},
                        {"mean_absolute_error", error->error.mean_absolute},
                        {"mean_squared_error_of_mean", error->error.mean_squared_of_mean},
                        {"mean_squared_error_of_seen", error->mean_squared_of_seen}};
  return json;
}

}  // namespace sluice
