// The links of the virtual clock (simulate.h has the rules): times of messages and ring collectives, and the media for
// which they queue or which they share.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "harness/model/cluster.h"
#include "harness/model/interference.h"
#include "harness/program/program.h"
#include "harness/sim/fair_transfers.h"
#include "harness/sim/route.h"

namespace sluice {

// Rings that run at the same time: a part of a collective, which ends with the last of them. On a ring, every member
// sends bytes / parts to the next, `steps` times.
struct RingPhase {
  std::vector<std::size_t> rings;
  std::size_t steps = 0;
  double parts = 1;
};

class Network {
 public:
  // interference: null for none; its clock is `start` seconds ahead. Throws InputError if it slows links that are
  // shared fairly: their rates are not defined.
  Network(const Program& program, const Cluster& cluster, std::span<const DeviceId> devices,
          const Interference* interference = nullptr, double start = 0);

  // True if no medium is used by two senders: then each sender's own order is the queue's order,
  // and ranks may run ahead of one another in any order.
  bool exclusive() const { return exclusive_; }
  // True if a message of this channel may wait for one of another sender or, with fair sharing, slow another one.
  bool shared(std::int32_t channel) const { return shared_[static_cast<std::size_t>(channel)]; }
  // Whether messages of shared channels, and rings, are transfers of fair().
  bool shares_fairly() const { return fairly_; }
  FairTransfers& fair() { return fair_; }

  const Route& route(std::size_t channel) const { return routes_[channel]; }
  const Route& ring(std::size_t ring) const { return rings_[ring]; }
  double transfer_seconds(std::size_t channel, double bytes) const { return bytes * routes_[channel].seconds_per_byte; }

  // Arrival time of a message that is sent at `now`.
  double arrival(std::size_t channel, double now, double transfer) {
    const Route& route = routes_[channel];
    return end_of_transfer(route, now, transfer) + latency_of_next(channel);
  }
  double latency_of_next(std::size_t channel) {
    const double latency = routes_[channel].latency;
    return jitter_ > 0 ? latency * noise_factor(jitter_seed_, channel, messages_[channel]++, jitter_) : latency;
  }

  // Ring all-reduce without contention over one of collective_groups(): 2 (n - 1) steps of bytes / n.
  double all_reduce_end(std::int32_t group, double now, std::size_t members, double bytes) const {
    const Route& ring = rings_[static_cast<std::size_t>(group)];
    const double n = static_cast<double>(members);
    if (ring.speed.constant()) return now + 2 * (n - 1) * (bytes / n * ring.seconds_per_byte + ring.latency);
    return ring.speed.finish(now, 2 * (n - 1) * (bytes / n * ring.seconds_per_byte)) + 2 * (n - 1) * ring.latency;
  }

  // The rings of a stage's gathers and reduce-scatters, and of its all-reduces on the links.
  const std::vector<RingPhase>& gather(StageId stage) const { return gathers_[stage.index()]; }
  const std::vector<RingPhase>& all_reduce(StageId stage) const { return all_reduces_[stage.index()]; }

  // End of a ring step in which every member sends `bytes` to the next.
  double ring_step_end(std::size_t ring, double now, double bytes) {
    const Route& route = rings_[ring];
    const double transfer = bytes * route.seconds_per_byte;
    return end_of_transfer(route, now, transfer) + route.latency;
  }

 private:
  using Medium = std::tuple<int, std::size_t, bool>;  // (kind, link or group, direction)
  using Members = std::vector<DeviceId>;

  Route route_between(DeviceId from, DeviceId to);
  Route ring_of(const Members& members);
  void add_collectives(const Cluster& cluster, const Members& members);
  std::vector<RingPhase> all_reduce_over_nodes(const Cluster& cluster, const Members& members);
  std::size_t add_ring(const Members& members);
  void find_shared(const Program& program, bool rings_on_links);
  void occupy(Route& route, const Medium& medium, double bandwidth);

  PiecewiseSpeed speed_between(DeviceId from, DeviceId to);

  // End of a transfer that waits until all the media are free, and then occupies them.
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
  std::vector<double> capacities_;  // bytes/s of each medium: of the fastest link that uses it
  std::vector<Route> routes_;
  std::vector<Route> rings_;                                   // of a step; first one per collective group
  std::vector<std::vector<RingPhase>> gathers_, all_reduces_;  // per stage
  std::vector<double> busy_until_;
  bool exclusive_ = true;
  std::vector<bool> shared_;  // per channel
  bool fairly_ = false;
  FairTransfers fair_{{}};
  const Interference* interference_;
  double start_ = 0;
  double jitter_ = 0;  // of latencies
  std::uint64_t jitter_seed_ = 0;
  std::vector<std::uint64_t> messages_;  // per channel, if latencies jitter
};

}  // namespace sluice
