// The cluster in the form that planners use: groups of devices joined by fast links inside groups joined by slower
// ones.
#pragma once

#include <vector>

#include "harness/model/cluster.h"
#include "harness/model/cost_graph.h"

namespace sluice {

// Returns `devices`; throws InputError if they are too many for a planner's storage per pair of devices.
std::size_t few_enough_to_compare(int devices);

// Bandwidth of the path between any two of the first `devices` devices, bytes/s (its slowest link).
class Bandwidths {
 public:
  // Throws InputError if two have no path, or if they are too many.
  Bandwidths(const Cluster& cluster, int devices);
  double between(DeviceId a, DeviceId b) const { return bandwidth_[a.index() * devices_ + b.index()]; }
  double slowest() const;  // of any pair; infinity for one device
  // The slowest pair with one end in each, or both ends in one set.
  double across(const std::vector<DeviceId>& a, const std::vector<DeviceId>& b) const;
  double within(const std::vector<DeviceId>& devices) const;
  std::size_t devices() const { return devices_; }

 private:
  std::size_t devices_;
  std::vector<double> bandwidth_;
};

// Devices in nested groups of equal size. `order` lists them so that every group of every level is contiguous.
// counts[k] groups of level k - 1 (devices for k = 0) make one of level k, and two of them are joined at bandwidths[k].
// Uneven groups are merged: their level takes the bandwidth of the level around it.
struct MachineTree {
  std::vector<DeviceId> order;
  std::vector<int> counts;
  std::vector<double> bandwidths;  // bytes/s
};
MachineTree machine_tree(const Bandwidths& bandwidths);

// The costs for planners that assume equal devices: every layer as slow as on the slowest of the first `devices`
// devices.
CostGraph costs_on_slowest(const CostGraph& costs, const Cluster& cluster, int devices);

// The cluster for planners that know a device by its speed alone: where the costs have times of a device
// (LayerCost::on), its speed is the model's F, I and W by LayerCost over those on the device. Layers whose ratio is
// another one are planned as if they had this one; stage_costs() has each layer's own times for either cluster.
Cluster with_measured_speeds(Cluster cluster, const CostGraph& costs);

// Bytes of the smallest memory among the first `devices` devices.
double smallest_memory(const Cluster& cluster, int devices);

}  // namespace sluice
