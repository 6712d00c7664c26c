// Cluster: heterogeneous devices and the links between them. JSON (workloads/clusters/*.json):
//   {"name": "...", "source": "...",
//    "devices": [{"name": "gpu", "count": 4, "flops": 15.7e12, "flops_16": 125e12, "memory_bandwidth": "900GB/s",
//                 "memory": "16GiB", "speed": 1, "launch": "5us", "host_bandwidth": "12GB/s", "host_latency": "0us",
//                 "kernels": "v100_sxm2_fp32", "kernels_16": "v100_sxm2_fp16"}],
//    "links": [{"from": 0, "to": 1, "bandwidth": "12GB/s", "latency": "5us", "duplex": true,
//               "group": "nic0", "to_group": "nic1"}]}
// or, instead of links, "all_to_all": {"bandwidth": ..., "latency": ...}: a full-duplex link between every two devices.
// A group is a medium that its links share (a host's network card, a bus). "nodes": {"count": 8, "bandwidth":
// "12.5GB/s", "latency": "5us", "cards": "node"}: 8 nodes, each with the devices and links above and groups of its own;
// two devices of different nodes are linked through the network cards of both nodes ("cards": "node") or of both
// devices ("device").
// "sharing": "queue" or "fair", "sends": "overlapped" or "blocking", "all_reduce": "apart", "ring" or "nodes": see
// LinkSharing, Sends and AllReduce. "pair_share": Cluster::pair_share; "pairs": "apart" or "overlap", see Pairs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/base/choice.h"
#include "harness/base/ids.h"
#include "harness/base/quantities.h"
#include "harness/model/precision.h"

namespace sluice {

class Json;

struct Device {
  std::string name = "device";
  double flops = 15.7e12;  // peak FLOP/s in fp32, or in the format used instead (V100 SXM2: NVIDIA datasheet)
  // The same for dense matrix products in 16 bit; 0: not stated. A V100's if `flops` is left out.
  double flops_16 = 125e12;
  double memory_bandwidth = 900e9;  // bytes/s (the same datasheet)
  Bytes memory = GiB(16);
  double speed = 1;      // multiplies compute speed: 0.5 takes twice as long
  Seconds launch{5e-6};  // per layer and direction
  // Bandwidth of the link to its host's memory: bytes/s, each way; 0: unknown.
  double host_bandwidth = 0;
  Seconds host_latency{};  // of a copy
  // The calibrations of its kernels (calibration.h) in fp32 and in 16 bit; empty: none.
  std::string kernels, kernels_16;
  double peak(const Storage& storage) const { return storage.is_16_bit() ? flops_16 : flops; }
  const std::string& calibration(const Storage& storage) const { return storage.is_16_bit() ? kernels_16 : kernels; }
};

struct Link {
  DeviceId from, to;
  double bandwidth = 0;  // bytes/s, per direction if duplex; infinity: no transfer time
  Seconds latency{};
  bool duplex = true;  // false: the two directions share the bandwidth
  // Media (>= 0) that the link shares with other links, one direction each if duplex: one at its `from` end (a host's
  // network card, a bus) and one at its `to` end. Without them, the link has its own medium.
  int group = -1;
  int to_group = -1;
};

// Transfers that share a medium. queue: wait for each other, first come first served; fair: run in parallel at max-min
// fair rates, like many connections over a switched network.
enum class LinkSharing { queue, fair };

// A device that sends a message. overlapped: continues to compute; blocking: waits until the message has arrived, like
// a GPU whose copies are in the stream of its kernels.
enum class Sends { overlapped, blocking };

// The all-reduce of a stage's gradients. apart: a ring without contention. ring: the same ring on the links, in
// contention with messages and other rings. nodes: on the links, in two levels: a reduce-scatter inside each node, an
// all-reduce of each part between the nodes, a gather inside (hierarchical); one ring if the stage does not have an
// equal number of devices, two or more, in each of several nodes.
enum class AllReduce { apart, ring, nodes };

// The sums of tensor-parallel groups inside the two ops of an overlapped pair. apart: each adds its time, or pair_share
// applies. overlap: the products of one op hide the sums of the other; layer by layer, F and B together take the max of
// all products and all sums.
enum class Pairs { apart, overlap };

template <>
struct Choices<LinkSharing> {
  static constexpr Choice<LinkSharing> all[] = {{LinkSharing::queue, "queue"}, {LinkSharing::fair, "fair"}};
};
template <>
struct Choices<Sends> {
  static constexpr Choice<Sends> all[] = {{Sends::overlapped, "overlapped"}, {Sends::blocking, "blocking"}};
};
template <>
struct Choices<AllReduce> {
  static constexpr Choice<AllReduce> all[] = {
      {AllReduce::apart, "apart"}, {AllReduce::ring, "ring"}, {AllReduce::nodes, "nodes"}};
};
template <>
struct Choices<Pairs> {
  static constexpr Choice<Pairs> all[] = {{Pairs::apart, "apart"}, {Pairs::overlap, "overlap"}};
};

// An overlapped pair takes at least as long as its longer op, which is at least half of the sum; above 1, the ops slow
// each other down.
inline constexpr double kMinPairShare = 0.5, kMaxPairShare = 10;

struct Cluster {
  std::string name;
  std::string source;
  std::vector<Device> devices;
  std::vector<Link> links;  // a duplex link serves both directions
  // Instead of `links`: one like this, without groups, between every two devices; its own ends are ignored.
  std::optional<Link> all_to_all = {};
  int nodes = 0;  // number of machines: equal parts of `devices`, in order; 0: not in the file
  LinkSharing sharing = LinkSharing::queue;
  Sends sends = Sends::overlapped;
  AllReduce all_reduce = AllReduce::apart;
  // Duration of an overlapped pair / the sum of both ops' durations (pipeline/schedule.h). Absent: 1, or the share in
  // the costs of the layers.
  std::optional<double> pair_share = {};
  Pairs pairs = Pairs::apart;
  // Its devices are cores of the machine on which costs were measured: busy ones slow one another down, and messages
  // take the time of the executor's transport. `cores`: the number for the ranks.
  struct OneMachine {
    bool between_processes = false;  // messages are between processes, not threads
    int cores = 1;
  };
  std::optional<OneMachine> one_machine = {};
};

// Calls change(link) for every listed link, and for all_to_all.
template <class Function>
void each_link(Cluster& cluster, const Function& change) {
  for (Link& link : cluster.links) change(link);
  if (cluster.all_to_all) change(*cluster.all_to_all);
}

// Replaces all_to_all by `links`, one link per pair, so that they can differ. Without all_to_all it does nothing.
void list_links(Cluster& cluster);

// The links from `from` to `to` in order: the path with the lowest latency + time of 1 MiB. Throws InputError ("no path
// between devices 0 and 3").
struct Hop {
  Link link;
  std::size_t number;  // of the link among all of the cluster
  bool reversed;       // used from Link::to to Link::from
};
std::vector<Hop> path(const Cluster& cluster, DeviceId from, DeviceId to);

// The same for many pairs: sorts the links by device once. The cluster must outlive it.
class Paths {
 public:
  explicit Paths(const Cluster& cluster);
  std::vector<Hop> between(DeviceId from, DeviceId to);  // throws as path()

 private:
  struct Step {
    std::size_t link;
    bool reversed;
  };
  struct Neighbour {
    std::size_t device, link;
    bool reversed;
    double cost;
  };
  const Cluster& cluster_;
  std::vector<std::size_t> first_;  // of each device in neighbours_, and the end
  std::vector<Neighbour> neighbours_;
  std::vector<double> distance_;  // infinite between searches
  std::vector<Step> reached_by_;
};

// Throws InputError if a device states no peak for the format of compute in this storage.
void require_peak(std::span<const Device> devices, const Storage& storage);

// Throws InputError with file and JSON pointer: unknown key, wrong type, count < 1, missing memory, ...
Cluster cluster_from_json(const Json& json, const std::string& where);

// "flat:N[,bandwidth=25GiB/s][,latency=5us][,memory=16GiB][,speed=1][,host=12GB/s]", a file ending in .json, or the
// name of a file in `folder` (workloads/clusters). After a file or name, ",bandwidth=..." and ",latency=..." change all
// links, and ",speed=8-15:0.25" makes devices 8 to 15 four times slower. After any of them, ",sharing=fair",
// ",sends=blocking", ",all_reduce=ring", ",pair_share=0.9" and ",pairs=overlap", each once. Throws InputError.
Cluster load_cluster(const std::string& description, const std::string& folder);
// The file that it reads, existing or not; empty: none (flat:N).
std::string cluster_file(const std::string& description, const std::string& folder);

}  // namespace sluice
