#include "harness/case/calibrated.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/source_folder.h"
#include "harness/model/calibrated_costs.h"

namespace sluice {

namespace {

const std::string kCalibrated = "calibrated";

std::optional<Seconds> host_gap_of(const std::string& costs) {
  if (costs == kCalibrated) return std::nullopt;
  const std::string prefix = kCalibrated + ",host_gap=", where = "costs '" + costs + "'";
  if (!costs.starts_with(prefix)) throw InputError(where, "is unknown", "write calibrated,host_gap=40us");
  const Seconds gap = parse_seconds(costs.substr(prefix.size()), where);
  if (!(gap.value >= 0 && gap.value <= 1)) throw InputError(where, "host_gap must be from 0 to 1 second");
  return gap;
}

// The listed clusters all of whose devices name a calibration.
std::string calibrated_clusters() {
  const std::string folder = source_folder() + "/workloads/clusters";
  std::string names = "flat:N";
  for (const std::string& name : listed_clusters(folder)) {
    const Cluster cluster = load_cluster(name, folder);
    if (std::ranges::none_of(cluster.devices, [](const Device& d) { return d.kernels.empty(); })) names += ", " + name;
  }
  return names;
}

const Calibration& calibration_of(const Device& device, const Cluster& cluster) {
  if (device.kernels.empty())
    throw InputError(
        "cluster '" + cluster.name + "'", "device '" + device.name + "' has no calibration of its kernels' times",
        "let \"kernels\" name one of sluice list calibrations, or use a cluster with them: " + calibrated_clusters());
  static std::mutex mutex;
  static std::map<std::string, Calibration> read;  // a sweep asks for every case
  const std::lock_guard lock(mutex);
  auto found = read.find(device.kernels);
  if (found == read.end())
    found =
        read.emplace(device.kernels, load_calibration(device.kernels, source_folder() + "/workloads/devices")).first;
  check_same_device(device, found->second);
  return found->second;
}

// A device of every name, in order. Costs of several devices are told apart by names.
std::vector<const Device*> kinds_of_devices(const Cluster& cluster) {
  std::map<std::string, const Device*> first;
  std::vector<const Device*> kinds;
  const std::string& usual = cluster.devices.front().kernels;
  for (const Device& device : cluster.devices) {
    const auto [found, is_new] = first.try_emplace(device.name, &device);
    if (is_new) kinds.push_back(&device);
    const Device& other = *found->second;
    if (device.kernels != other.kernels || (device.kernels != usual && device.speed != other.speed))
      throw InputError("cluster '" + cluster.name + "'",
                       "devices named '" + device.name + "' differ in calibration or speed",
                       "give devices with different kernels different names");
  }
  return kinds;
}

}  // namespace

bool is_calibrated(const std::string& costs) { return costs == kCalibrated || costs.starts_with(kCalibrated + ","); }

std::string calibrated_cost_source(const std::string& costs, const Cluster& cluster) {
  std::vector<std::string> names;
  for (const Device* device : kinds_of_devices(cluster))
    if (const std::string& name = calibration_of(*device, cluster).name; std::ranges::find(names, name) == names.end())
      names.push_back(name);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " + ") + name;
  if (const auto gap = host_gap_of(costs)) text += " with a host gap of " + to_text(*gap);
  return calibrated_source(text);
}

CostGraph cluster_costs(const std::string& costs, const ModelGraph& model, std::int64_t micro_batch,
                        const Cluster& cluster) {
  const std::optional<Seconds> host_gap = host_gap_of(costs);
  const auto costs_on = [&](const Device& device) {
    Calibration c = calibration_of(device, cluster);
    c.host_gap = host_gap.value_or(c.host_gap);
    return calibrated_costs(model, micro_batch, device, c);
  };
  const Device& usual = cluster.devices.front();
  CostGraph graph = costs_on(usual);
  graph.source = calibrated_cost_source(costs, cluster);
  for (const Device* device : kinds_of_devices(cluster)) {
    if (device->kernels == usual.kernels) continue;  // told apart by their speeds
    const CostGraph other = costs_on(*device);
    for (std::size_t l = 0; l < graph.layers.size(); ++l) {
      const LayerCost& layer = other.layers[l];
      graph.layers[l].on.push_back({device->name, layer.forward / device->speed, layer.input_gradient / device->speed,
                                    layer.weight_gradient / device->speed});
    }
  }
  return graph;
}

}  // namespace sluice
