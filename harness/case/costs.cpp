#include "harness/case/costs.h"

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <tuple>

#include "harness/base/error.h"
#include "harness/base/json_reader.h"
#include "harness/case/profile_workload.h"
#include "harness/case/real_executor.h"

namespace sluice {

bool is_cost_file(const std::string& source) { return source != kAnalyticCosts && source != kMeasuredCosts; }

namespace {
struct Measured {
  std::mutex mutex;
  std::map<std::tuple<std::string, std::int64_t, DeviceKind>, CostGraph> costs;  // by workload, micro-batch, device
};
Measured& measured() {
  static Measured all;
  return all;
}
}  // namespace

nlohmann::json measured_costs() {
  Measured& m = measured();
  const std::lock_guard lock(m.mutex);
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [key, costs] : m.costs) list.push_back({{"workload", std::get<0>(key)}, {"costs", to_json(costs)}});
  return list;
}

void adopt_measured_costs(const nlohmann::json& list) {
  Measured& m = measured();
  const std::lock_guard lock(m.mutex);
  for (const nlohmann::json& item : list) {
    CostGraph costs = cost_graph_from_json(item.at("costs"), "measured costs");
    const auto key = std::tuple(item.at("workload").get<std::string>(), costs.micro_batch,
                                choice_named<DeviceKind>(costs.device).value_or(DeviceKind::cpu));
    m.costs[key] = std::move(costs);
  }
}

CostGraph load_costs(const std::string& source, const Workload& workload, std::int64_t micro_batch,
                     const Device& device, DeviceKind measured_on) {
  if (const ProfileWorkload* profile = profile_workload(workload.name, source)) {
    if (profile->costs.micro_batch != micro_batch)
      throw InputError(workload.name,
                       "has micro-batches of " + std::to_string(profile->costs.micro_batch) + " samples, this plan " +
                           std::to_string(micro_batch),
                       "leave --micro-batch out");
    return profile->costs;
  }
  if (source == kAnalyticCosts) return analytic_costs(workload.model, micro_batch, device);
  if (source == kMeasuredCosts) {
    Measured& m = measured();
    const std::lock_guard lock(m.mutex);
    const auto key = std::tuple(workload.name, micro_batch, measured_on);
    if (!m.costs.contains(key)) m.costs[key] = real_executor::measure_costs(workload.model, micro_batch, measured_on);
    return m.costs.at(key);
  }
  const CostGraph graph = cost_graph_from_json(parse_json_file(source), source);
  if (graph.layers.size() != workload.model.layers.size())
    throw InputError(source,
                     "has " + std::to_string(graph.layers.size()) + " layers, workload '" + workload.name + "' has " +
                         std::to_string(workload.model.layers.size()),
                     "profile this workload");
  if (graph.micro_batch != micro_batch)
    throw InputError(source,
                     "was measured for micro-batches of " + std::to_string(graph.micro_batch) +
                         " samples, this run has " + std::to_string(micro_batch),
                     "profile again with --micro-batch " + std::to_string(micro_batch));
  return graph;
}

}  // namespace sluice
