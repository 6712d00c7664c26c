// Cluster: heterogeneous devices and the links between them. JSON (workloads/clusters/*.json):
//   {"name": "...", "source": "...",
//    "devices": [{"name": "gpu", "count": 4, "flops": 15.7e12, "flops_16": 125e12, "memory_bandwidth": "900GB/s",
//                 "memory": "16GiB", "speed": 1, "launch": "5us", "host_bandwidth": "12GB/s", "host_latency": "0us",
//                 "kernels": "v100_sxm2_fp32", "kernels_16": "v100_sxm2_fp16"}],
//    "links": [{"from": 0, "to": 1, "bandwidth": "12GB/s", "latency": "5us", "duplex": true,
//               "group": "nic0", "to_group": "nic1"}]}
// or, instead of links, "all_to_all": {"bandwidth": ..., "latency": ...}: a full-duplex link between every two devices.
// A group is a medium that its links share (a host's network card, a bus).
// "nodes": {"count": 8, "bandwidth": "12.5GB/s", "latency": "5us", "cards": "node"}: devices and links above are those
// of one node, of which there are 8, each with groups of its own; between any two devices of two nodes there is a link
// through the network cards of both nodes ("cards": "node") or of both devices ("device").
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
  // Media (>= 0) that the link shares with other links, one direction each if duplex: the one at its `from` end (a
  // host's network card, a bus) and the one at its `to` end. Without any, the link is its own.
  int group = -1;
  int to_group = -1;
};

// Transfers that share a medium wait for each other, first come first served (queue), or go on in parallel at
// max-min fair rates (fair), as many connections over a switched network do.
enum class LinkSharing { queue, fair };

// What a device does while it sends a message: it computes on (overlapped), or waits until the message is there
// (blocking), as a GPU does whose copies are in the stream of its kernels.
enum class Sends { overlapped, blocking };

// The all-reduce of a stage's gradients. apart: a ring that does not meet other traffic. ring: the same ring on the
// links, in contention with messages and other rings. nodes: on the links, in two levels: a reduce-scatter inside each
// node, an all-reduce of each part between the nodes, a gather inside (hierarchical); one ring where the stage has no
// equal number of devices, two or more, in each of several nodes.
enum class AllReduce { apart, ring, nodes };

// The sums of tensor-parallel groups inside the two ops of an overlapped pair. apart: each takes its time, or what
// pair_share says. overlap: those of one op are hidden by the products of the other, as far as these last; layer by
// layer, F and B take the longer of all products and all sums.
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

// Two ops cannot take less together than the longer one alone, which is at least half of their sum; above 1, they
// hinder each other.
inline constexpr double kMinPairShare = 0.5, kMaxPairShare = 10;

struct Cluster {
  std::string name;
  std::string source;
  std::vector<Device> devices;
  std::vector<Link> links;  // a duplex link serves both directions
  // Instead of `links`: one like this, without groups, between every two devices; its own ends do not count.
  std::optional<Link> all_to_all = {};
  int nodes = 0;  // as many equal parts of `devices`, in order, are machines; 0: the file does not say
  LinkSharing sharing = LinkSharing::queue;
  Sends sends = Sends::overlapped;
  AllReduce all_reduce = AllReduce::apart;
  // Of the seconds of two ops one after the other, what they take as an overlapped pair (pipeline/schedule.h). Absent:
  // 1, or what the costs of the layers say.
  std::optional<double> pair_share = {};
  Pairs pairs = Pairs::apart;
  // Its devices are cores of the machine that costs were measured on: busy ones slow one another down, and messages
  // take what the executor's transport takes. `cores`: how many there are for the ranks.
  struct OneMachine {
    bool between_processes = false;  // messages are between processes, not threads
    int cores = 1;
  };
  std::optional<OneMachine> one_machine = {};
};

// Calls change(link) for every link that is listed, and for the one that stands for all.
template <class Function>
void each_link(Cluster& cluster, const Function& change) {
  for (Link& link : cluster.links) change(link);
  if (cluster.all_to_all) change(*cluster.all_to_all);
}

// Puts all_to_all into `links`, a link a pair, where they are to differ. Without all_to_all it does nothing.
void list_links(Cluster& cluster);

// The links from `from` to `to` in order, the path of least latency + time of 1 MiB. Throws InputError ("no path
// between devices 0 and 3").
struct Hop {
  Link link;
  std::size_t number;  // of the link among all of the cluster
  bool reversed;       // travelled from Link::to to Link::from
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

// Throws InputError where a device states no peak for what is computed in this storage.
void require_peak(std::span<const Device> devices, const Storage& storage);

// Throws InputError with file and JSON pointer: unknown key, wrong type, count < 1, missing memory, ...
Cluster cluster_from_json(const Json& json, const std::string& where);

// "flat:N[,bandwidth=25GiB/s][,latency=5us][,memory=16GiB][,speed=1][,host=12GB/s]", a file ending in .json, or the
// name of a file in `folder` (workloads/clusters). Behind a file or name, ",bandwidth=..." and ",latency=..." give all
// its links another rate or latency, and ",speed=8-15:0.25" makes devices 8 to 15 four times slower. Behind any,
// ",sharing=fair", ",sends=blocking", ",all_reduce=ring", ",pair_share=0.9" and ",pairs=overlap". Throws InputError.
Cluster load_cluster(const std::string& description, const std::string& folder);
// The file that it reads, whether that is there or not; empty: none (flat:N).
std::string cluster_file(const std::string& description, const std::string& folder);
std::vector<std::string> listed_clusters(const std::string& folder);

}  // namespace sluice
