#include "harness/sim/network.h"

#include <algorithm>
#include <limits>

namespace sluice {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Network::Network(const Program& program, const Cluster& cluster, std::span<const DeviceId> devices,
                 const Interference* interference, double start)
    : paths_(cluster), interference_(interference), start_(start) {
  if (interference) {
    jitter_ = interference->latency_jitter;
    jitter_seed_ = interference->seed;
    messages_.assign(program.channels.size(), 0);
  }
  std::vector<Rank> sender;           // of each medium, the last
  std::vector<bool> several_senders;  // of each medium
  for (const Channel& c : program.channels) {
    Route route = route_between(cluster, devices[c.from.index()], devices[c.to.index()]);
    sender.resize(media_.size(), Rank(-1));
    several_senders.resize(media_.size(), false);
    for (const std::size_t medium : route.media) {
      if (sender[medium] != Rank(-1) && sender[medium] != c.from) several_senders[medium] = true;
      sender[medium] = c.from;
    }
    routes_.push_back(std::move(route));
  }
  for (const Route& route : routes_)
    shared_.push_back(std::ranges::any_of(route.media, [&](std::size_t medium) { return several_senders[medium]; }));
  exclusive_ = std::ranges::count(shared_, true) == 0;
  for (const auto& ranks : program.placement.stages) rings_.push_back(ring_of(cluster, devices, ranks));
  busy_until_.assign(media_.size(), 0);
}

// All hops of a step go at once: it takes as long as its slowest, or as those together that share a
// medium, and the longest latency.
Route Network::ring_of(const Cluster& cluster, std::span<const DeviceId> devices, const std::vector<Rank>& members) {
  Route ring;
  std::map<std::size_t, double> shared;  // medium -> seconds of a byte of every hop
  for (std::size_t k = 0; members.size() > 1 && k < members.size(); ++k) {
    const Route hop =
        route_between(cluster, devices[members[k].index()], devices[members[(k + 1) % members.size()].index()]);
    ring.latency = std::max(ring.latency, hop.latency);
    ring.speed = PiecewiseSpeed::slower(ring.speed, hop.speed);
    ring.seconds_per_byte = std::max(ring.seconds_per_byte, hop.seconds_per_byte);
    for (const std::size_t medium : hop.media)
      ring.seconds_per_byte = std::max(ring.seconds_per_byte, shared[medium] += hop.seconds_per_byte);
  }
  for (const auto& [medium, seconds] : shared) ring.media.push_back(medium);
  return ring;
}

Route Network::route_between(const Cluster& cluster, DeviceId from, DeviceId to) {
  Route route;
  double slowest = kInfinity;
  for (const Hop& hop : paths_.between(from, to)) {
    const Link& link = cluster.links[hop.link];
    route.latency += link.latency.value;
    slowest = std::min(slowest, link.bandwidth);
    if (link.bandwidth == kInfinity) continue;
    // A group's direction is seen from the end where it sits: out of link.from travelling along
    // the link, into link.to.
    if (link.group >= 0) occupy(route, {1, static_cast<std::size_t>(link.group), link.duplex && hop.reversed});
    if (link.to_group >= 0) occupy(route, {1, static_cast<std::size_t>(link.to_group), link.duplex && !hop.reversed});
    if (link.group < 0 && link.to_group < 0) occupy(route, {0, hop.link, link.duplex && hop.reversed});
  }
  route.seconds_per_byte = 1 / slowest;
  if (interference_) route.speed = speed_between(cluster, from, to);
  std::ranges::sort(route.media);
  route.media.erase(std::unique(route.media.begin(), route.media.end()), route.media.end());
  return route;
}

// The slowest link of the path at every moment, as a part of what the path carries undisturbed.
PiecewiseSpeed Network::speed_between(const Cluster& cluster, DeviceId from, DeviceId to) {
  struct LinkSpeed {
    PiecewiseSpeed speed;
    double bandwidth;
  };
  std::vector<LinkSpeed> links;
  double slowest = kInfinity;
  for (const Hop& hop : paths_.between(from, to)) {
    const Link& link = cluster.links[hop.link];
    slowest = std::min(slowest, link.bandwidth);
    links.push_back({interference_->link_speed(link.from, link.to), link.bandwidth});
  }
  std::vector<double> moments;
  for (const LinkSpeed& link : links)
    for (const auto& change : link.speed.changes()) moments.push_back(change.from);
  std::ranges::sort(moments);
  std::vector<PiecewiseSpeed::Change> changes;
  for (const double moment : moments) {
    double rate = kInfinity;
    for (const LinkSpeed& link : links) rate = std::min(rate, link.bandwidth * link.speed.at(moment));
    if (slowest < kInfinity) changes.push_back({moment, rate / slowest});
  }
  return PiecewiseSpeed(std::move(changes)).from(start_);
}

void Network::occupy(Route& route, const Medium& medium) {
  route.media.push_back(media_.try_emplace(medium, media_.size()).first->second);
}

}  // namespace sluice
