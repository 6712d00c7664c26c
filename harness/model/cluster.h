// Cluster: heterogeneous devices and the links between them. JSON (workloads/clusters/*.json):
//   {"name": "...", "source": "...",
//    "devices": [{"name": "gpu", "count": 4, "flops": 15.7e12, "flops_16": 125e12, "memory_bandwidth": "900GB/s",
//                 "memory": "16GiB", "speed": 1, "launch": "5us", "host_bandwidth": "12GB/s", "host_latency": "0us"}],
//    "links": [{"from": 0, "to": 1, "bandwidth": "12GB/s", "latency": "5us", "duplex": true,
//               "group": "nic0", "to_group": "nic1"}]}
// or, instead of links, "all_to_all": {"bandwidth": ..., "latency": ...}: one full-duplex link between every two
// devices. A group is a medium that its links share (a host's network card, a bus).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/base/ids.h"
#include "harness/base/quantities.h"
#include "harness/model/precision.h"

namespace sluice {

class Json;

struct Device {
  std::string name = "device";
  double flops = 15.7e12;  // peak FLOP/s in fp32, or what stands for it (V100 SXM2: NVIDIA datasheet)
  // The same of matrix products in 16 bit, dense; 0: not stated. A V100's where `flops` is left out, too.
  double flops_16 = 125e12;
  double memory_bandwidth = 900e9;  // bytes/s (the same datasheet)
  Bytes memory = GiB(16);
  double speed = 1;      // multiplies compute speed: 0.5 takes twice as long
  Seconds launch{5e-6};  // per layer and direction
  // Of its link to its host's memory: bytes/s, each way; 0: nothing is known of one.
  double host_bandwidth = 0;
  Seconds host_latency{};  // of a copy
  double peak(const Storage& storage) const { return storage.is_16_bit() ? flops_16 : flops; }
};

struct Link {
  DeviceId from, to;
  double bandwidth = 0;  // bytes/s, per direction if duplex; infinity: no transfer time
  Seconds latency{};
  bool duplex = true;  // false: the two directions share the bandwidth
  // Media (>= 0) that the link shares with other links, one direction each if duplex: the one at its `from` end (a
  // host's network card, a bus) and the one at its `to` end. Without any, the link is its own.
  int group = -1;
  int to_group = -1;
};

struct Cluster {
  std::string name;
  std::string source;
  std::vector<Device> devices;
  std::vector<Link> links;  // a duplex link serves both directions
  // Its devices are cores of the machine that costs were measured on: busy ones slow one another down, and messages
  // take what the executor's transport takes. `cores`: how many there are for the ranks.
  struct OneMachine {
    bool between_processes = false;  // messages are between processes, not threads
    int cores = 1;
  };
  std::optional<OneMachine> one_machine = {};
};

// The links from `from` to `to` in order, the path of least latency + time of 1 MiB. Throws InputError ("no path
// between devices 0 and 3").
struct Hop {
  std::size_t link;
  bool reversed;  // travelled from Link::to to Link::from
};
std::vector<Hop> path(const Cluster& cluster, DeviceId from, DeviceId to);

// The same for many pairs: sorts the links by device once. The cluster must outlive it.
class Paths {
 public:
  explicit Paths(const Cluster& cluster);
  std::vector<Hop> between(DeviceId from, DeviceId to);  // throws as path()

 private:
  struct Neighbour {
    std::size_t device, link;
    bool reversed;
    double cost;
  };
  const Cluster& cluster_;
  std::vector<std::size_t> first_;  // of each device in neighbours_, and the end
  std::vector<Neighbour> neighbours_;
  std::vector<double> distance_;  // infinite between searches
  std::vector<Hop> reached_by_;
};

// Throws InputError where a device states no peak for what is computed in this storage.
void require_peak(std::span<const Device> devices, const Storage& storage);

// Throws InputError with file and JSON pointer: unknown key, wrong type, count < 1, missing memory, ...
Cluster cluster_from_json(const Json& json, const std::string& where);
Json to_json(const Cluster& cluster);

// "flat:N[,bandwidth=25GiB/s][,latency=5us][,memory=16GiB][,speed=1][,host=12GB/s]", a file ending in .json, or the
// name of a file in `folder` (workloads/clusters). Behind a file or name, ",bandwidth=..." and ",latency=..." give all
// its links another rate or latency, and ",speed=8-15:0.25" makes devices 8 to 15 four times slower. Throws InputError.
Cluster load_cluster(const std::string& description, const std::string& folder);
std::vector<std::string> listed_clusters(const std::string& folder);

}  // namespace sluice
