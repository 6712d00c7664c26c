#include "harness/case/calibrated.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/source_folder.h"
#include "harness/model/calibrated_costs.h"
#include "harness/pipeline/optimizer_costs.h"

namespace sluice {

namespace {

const std::string kCalibrated = "calibrated";

struct Host {
  Seconds gap;
  bool blocking = false;
};

std::optional<Host> host_of(const std::string& costs) {
  if (costs == kCalibrated) return std::nullopt;
  const std::string prefix = kCalibrated + ",host_gap=", where = "costs '" + costs + "'";
  if (!costs.starts_with(prefix))
    throw InputError(where, "is unknown", "write calibrated,host_gap=40us or calibrated,host_gap=40us,blocking");
  std::string text = costs.substr(prefix.size());
  const std::string_view blocking = ",blocking";
  const bool blocks = text.ends_with(blocking);
  if (blocks) text.resize(text.size() - blocking.size());
  const Seconds gap = parse_seconds(text, where);
  if (!(gap.value >= 0 && gap.value <= 1)) throw InputError(where, "host_gap must be from 0 to 1 second");
  return Host{gap, blocks};
}

// The listed clusters all of whose devices name a calibration for this storage.
std::string calibrated_clusters(const Storage& storage) {
  const std::string folder = source_folder() + "/workloads/clusters";
  std::string names = "flat:N";
  for (const std::string& name : names_of_json_files(folder)) {
    const Cluster cluster = load_cluster(name, folder);
    if (std::ranges::none_of(cluster.devices, [&](const Device& d) { return d.calibration(storage).empty(); }))
      names += ", " + name;
  }
  return names;
}

const Calibration& calibration_of(const Device& device, const Cluster& cluster, const Storage& storage) {
  const std::string& name = device.calibration(storage);
  if (name.empty())
    throw InputError(
        "cluster '" + cluster.name + "'",
        "device '" + device.name + "' has no calibration of its kernels' times in " +
            (storage.is_16_bit() ? "16 bit" : "fp32"),
        std::string("let \"") + (storage.is_16_bit() ? "kernels_16" : "kernels") +
            "\" name one of sluice list calibrations, or use a cluster with them: " + calibrated_clusters(storage));
  static std::mutex mutex;
  static std::map<std::string, Calibration> read;  // a sweep asks for every case
  const std::lock_guard lock(mutex);
  auto found = read.find(name);
  if (found == read.end())
    found = read.emplace(name, load_calibration(name, source_folder() + "/workloads/devices")).first;
  check_same_device(device, found->second);
  return found->second;
}

// A device of every name, in order. Costs of several devices are told apart by names.
std::vector<const Device*> kinds_of_devices(const Cluster& cluster, const Storage& storage) {
  std::map<std::string, const Device*> first;
  std::vector<const Device*> kinds;
  const std::string& usual = cluster.devices.front().calibration(storage);
  for (const Device& device : cluster.devices) {
    const auto [found, is_new] = first.try_emplace(device.name, &device);
    if (is_new) kinds.push_back(&device);
    const Device& other = *found->second;
    const std::string& kernels = device.calibration(storage);
    if (kernels != other.calibration(storage) || (kernels != usual && device.speed != other.speed))
      throw InputError("cluster '" + cluster.name + "'",
                       "devices named '" + device.name + "' differ in calibration or speed",
                       "give devices with different kernels different names");
  }
  return kinds;
}

}  // namespace

bool is_calibrated(const std::string& costs) { return costs == kCalibrated || costs.starts_with(kCalibrated + ","); }

std::vector<const Calibration*> calibrations_of(const Cluster& cluster, const Storage& storage) {
  std::vector<const Calibration*> all;
  for (const Device* device : kinds_of_devices(cluster, storage)) {
    const Calibration* calibration = &calibration_of(*device, cluster, storage);
    if (std::ranges::find(all, calibration) == all.end()) all.push_back(calibration);
  }
  return all;
}

std::string calibrated_cost_source(const std::string& costs, const ModelGraph& model, const Cluster& cluster,
                                   const Storage& storage) {
  std::string text;
  bool derived = false;
  for (const Calibration* calibration : calibrations_of(cluster, storage)) {
    text += (text.empty() ? "" : " + ") + calibration->name;
    derived = derived || derives_convolutions(model, *calibration);
  }
  if (derived) text += ", convolutions derived from products";
  if (const auto host = host_of(costs))
    text += " with a host gap of " + to_text(host->gap) + (host->blocking ? " and blocking launches" : "");
  return calibrated_source(text);
}

CostGraph cluster_costs(const std::string& costs, const ModelGraph& model, std::int64_t micro_batch,
                        const Cluster& cluster, const Storage& storage, const OptimizerSpec& optimizer) {
  const std::optional<Host> host = host_of(costs);
  const auto costs_on = [&](const Device& device) {
    Calibration c = calibration_of(device, cluster, storage);
    if (host) {
      c.host_gap = host->gap;
      c.blocking_launches = host->blocking;
    }
    CostGraph graph = calibrated_costs(model, micro_batch, device, c, storage);
    add_optimizer_state(graph, model, optimizer, c);
    return graph;
  };
  const Device& usual = cluster.devices.front();
  CostGraph graph = costs_on(usual);
  graph.source = calibrated_cost_source(costs, model, cluster, storage);
  for (const Device* device : kinds_of_devices(cluster, storage)) {
    if (device->calibration(storage) == usual.calibration(storage)) continue;  // told apart by their speeds
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
