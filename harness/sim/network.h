// The links of the virtual clock (simulate.h has the rules): what messages and ring collectives
// take, and the media they queue for.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "harness/model/cluster.h"
#include "harness/model/interference.h"
#include "harness/program/program.h"

namespace sluice {

// What one channel's messages cost, and the media they occupy.
struct Route {
  double latency = 0;
  double seconds_per_byte = 0;
  std::vector<std::size_t> media;
  PiecewiseSpeed speed = {};  // of its transfers
};

class Network {
 public:
  // interference: null for none; its clock is `start` seconds ahead.
  Network(const Program& program, const Cluster& cluster, std::span<const DeviceId> devices,
          const Interference* interference = nullptr, double start = 0);

  // True if no medium is used by two senders: then each sender's own order is the queue's order,
  // and ranks may run ahead of one another in any order.
  bool exclusive() const { return exclusive_; }
  // True if a message of this channel may wait for one of another sender.
  bool shared(std::int32_t channel) const { return shared_[static_cast<std::size_t>(channel)]; }

  double transfer_seconds(std::size_t channel, double bytes) const { return bytes * routes_[channel].seconds_per_byte; }

  // When a message that is sent at `now` is there.
  double arrival(std::size_t channel, double now, double transfer) {
    const Route& route = routes_[channel];
    double latency = route.latency;
    if (jitter_ > 0) latency *= noise_factor(jitter_seed_, channel, messages_[channel]++, jitter_);
    return end_of_transfer(route, now, transfer) + latency;
  }

  // Ring all-reduce: 2 (n - 1) steps of bytes / n.
  double all_reduce_end(StageId stage, double now, std::size_t replicas, double bytes) const {
    const Route& ring = rings_[stage.index()];
    const double n = static_cast<double>(replicas);
    if (ring.speed.constant()) return now + 2 * (n - 1) * (bytes / n * ring.seconds_per_byte + ring.latency);
    return ring.speed.finish(now, 2 * (n - 1) * (bytes / n * ring.seconds_per_byte)) + 2 * (n - 1) * ring.latency;
  }

  // When a step of a ring, in which every member sends `bytes` to the next, is over.
  double ring_step_end(StageId stage, double now, double bytes) {
    const Route& ring = rings_[stage.index()];
    const double transfer = bytes * ring.seconds_per_byte;
    return end_of_transfer(ring, now, transfer) + ring.latency;
  }

 private:
  using Medium = std::tuple<int, std::size_t, bool>;  // (kind, link or group, direction)

  Route route_between(const Cluster& cluster, DeviceId from, DeviceId to);
  Route ring_of(const Cluster& cluster, std::span<const DeviceId> devices, const std::vector<Rank>& members);
  void occupy(Route& route, const Medium& medium);

  PiecewiseSpeed speed_between(const Cluster& cluster, DeviceId from, DeviceId to);

  // The end of a transfer that waits until all the media are free, and then keeps them.
  double end_of_transfer(const Route& route, double now, double transfer) {
    if (!(transfer > 0)) return now + transfer;
    double start = now;
    for (const std::size_t m : route.media) start = std::max(start, busy_until_[m]);
    const double end = route.speed.finish(start, transfer);
    for (const std::size_t m : route.media) busy_until_[m] = end;
    return end;
  }

  Paths paths_;
  std::map<Medium, std::size_t> media_;
  std::vector<Route> routes_;
  std::vector<Route> rings_;  // per stage; of a step
  std::vector<double> busy_until_;
  bool exclusive_ = true;
  std::vector<bool> shared_;  // per channel
  const Interference* interference_;
  double start_ = 0;
  double jitter_ = 0;  // of latencies
  std::uint64_t jitter_seed_ = 0;
  std::vector<std::uint64_t> messages_;  // per channel, where they jitter
};

}  // namespace sluice
