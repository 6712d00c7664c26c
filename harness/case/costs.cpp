#include "harness/case/costs.h"

#include <mutex>
#include <set>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/case/calibrated.h"
#include "harness/case/profile_workload.h"

namespace sluice {

bool is_cost_file(const std::string& source) {
  return source != kAnalyticCosts && source != kMeasuredCosts && !is_calibrated(source);
}

static CostGraph cost_file(const std::string& file, const Workload& workload) {
  CostGraph graph = cost_graph_from_json(parse_json_file(file), file);
  if (graph.layers.size() != workload.model.layers.size())
    throw InputError(file,
                     "has " + std::to_string(graph.layers.size()) + " layers, workload '" + workload.name + "' has " +
                         std::to_string(workload.model.layers.size()),
                     "profile this workload");
  return graph;
}

void check_cost_file(const std::string& file, const Workload& workload) {
  static std::mutex mutex;
  static std::set<std::pair<std::string, std::string>> sound;  // a sweep asks for every case
  const std::lock_guard lock(mutex);
  if (sound.contains({file, workload.name})) return;
  cost_file(file, workload);
  sound.insert({file, workload.name});
}

CostGraph load_costs(const std::string& source, const Workload& workload, const ProfileKey& key, const Cluster& cluster,
                     const Storage& storage, ProfileStore& profiles) {
  const std::int64_t micro_batch = key.micro_batch;
  if (const ProfileWorkload* profile = profile_workload(workload.name, source)) {
    if (profile->costs.micro_batch != micro_batch)
      throw InputError(workload.name,
                       "has micro-batches of " + std::to_string(profile->costs.micro_batch) + " samples, this plan " +
                           std::to_string(micro_batch),
                       "choose --batch and --microbatches so that they agree");
    return with_weights_in(storage, profile->costs);
  }
  if (source == kAnalyticCosts || is_calibrated(source)) {
    CostGraph graph = is_calibrated(source)
                          ? cluster_costs(source, workload.model, micro_batch, cluster, storage, key.optimizer)
                          : analytic_costs(workload.model, micro_batch, cluster.devices.front(), storage);
    check_bounds(graph, workload.name);
    return graph;
  }
  if (source == kMeasuredCosts) {
    const bool between_processes = cluster.one_machine && cluster.one_machine->between_processes;
    return profiles.costs(key, workload, between_processes);
  }
  const CostGraph graph = cost_file(source, workload);
  if (graph.micro_batch != micro_batch)
    throw InputError(source,
                     "was measured for micro-batches of " + std::to_string(graph.micro_batch) +
                         " samples, this run has " + std::to_string(micro_batch),
                     "profile again with the same --batch and --microbatches");
  if (cluster.one_machine && graph.machine) profiles.warn_of_changes(source, *graph.machine);
  return graph;
}

}  // namespace sluice
