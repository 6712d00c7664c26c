#include "harness/sim/network.h"

#include <algorithm>
#include <limits>

#include "harness/base/error.h"

namespace sluice {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Network::Network(const Program& program, const Cluster& cluster, std::span<const DeviceId> devices,
                 const Interference* interference, double start)
    : paths_(cluster), fairly_(cluster.sharing == LinkSharing::fair), interference_(interference), start_(start) {
  if (interference) {
    jitter_ = interference->latency_jitter;
    jitter_seed_ = interference->seed;
    messages_.assign(program.channels.size(), 0);
    if (fairly_ && std::ranges::count(interference->episodes, Resource::link, &Episode::resource) > 0)
      throw InputError("cluster '" + cluster.name + "'", "links that are shared fairly do not slow down by episodes",
                       "use sharing queue, or interference without links");
  }
  for (const Channel& c : program.channels)
    routes_.push_back(route_between(devices[c.from.index()], devices[c.to.index()]));
  std::vector<Members> groups;
  for (const std::vector<Rank>& ranks : collective_groups(program)) {
    Members& members = groups.emplace_back();
    for (const Rank rank : ranks) members.push_back(devices[rank.index()]);
    add_ring(members);
  }
  for (std::size_t s = 0; s < program.placement.stages.size(); ++s) add_collectives(cluster, groups[s]);
  find_shared(program, cluster.all_reduce != AllReduce::apart);
  busy_until_.assign(media_.size(), 0);
  fair_ = FairTransfers(capacities_);
}

// Queued for: a medium that several ranks send through. Shared fairly: one that several channels use, or that rings
// turn on.
void Network::find_shared(const Program& program, bool rings_on_links) {
  std::vector<int> user(media_.size(), -1);  // the last: a rank, or, shared fairly, a channel
  std::vector<bool> several_users(media_.size(), false);
  for (std::size_t c = 0; c < routes_.size(); ++c) {
    const int own = fairly_ ? static_cast<int>(c) : program.channels[c].from.value;
    for (const std::size_t medium : routes_[c].media) {
      if (user[medium] != -1 && user[medium] != own) several_users[medium] = true;
      user[medium] = own;
    }
  }
  if (rings_on_links || (fairly_ && program.sharding.active()))
    for (const Route& ring : rings_)
      for (const std::size_t medium : ring.media) several_users[medium] = true;
  for (const Route& route : routes_)
    shared_.push_back(std::ranges::any_of(route.media, [&](std::size_t medium) { return several_users[medium]; }));
  exclusive_ = std::ranges::count(shared_, true) == 0;
}

std::size_t Network::add_ring(const Members& members) {
  rings_.push_back(ring_of(members));
  return rings_.size() - 1;
}

void Network::add_collectives(const Cluster& cluster, const Members& members) {
  const std::size_t all = gathers_.size();  // the stage's own ring
  const auto n = members.size();
  gathers_.push_back({{{all}, n - 1, static_cast<double>(n)}});
  all_reduces_.push_back({{{all}, 2 * (n - 1), static_cast<double>(n)}});
  if (cluster.all_reduce != AllReduce::nodes || cluster.nodes == 0) return;
  if (std::vector<RingPhase> phases = all_reduce_over_nodes(cluster, members); !phases.empty())
    all_reduces_.back() = std::move(phases);
}

// Empty: the members do not stand as many, two or more, in each of several nodes.
std::vector<RingPhase> Network::all_reduce_over_nodes(const Cluster& cluster, const Members& members) {
  const auto node_size = static_cast<int>(cluster.devices.size()) / cluster.nodes;
  std::map<int, Members> by_node;
  for (const DeviceId device : members) by_node[device.value / node_size].push_back(device);
  const std::size_t nodes = by_node.size(), inside = by_node.begin()->second.size();
  if (nodes < 2 || inside < 2) return {};
  RingPhase in_nodes{{}, inside - 1, static_cast<double>(inside)};
  for (const auto& [node, devices] : by_node) {
    if (devices.size() != inside) return {};
    in_nodes.rings.push_back(add_ring(devices));
  }
  RingPhase between{{}, 2 * (nodes - 1), static_cast<double>(inside * nodes)};
  for (std::size_t k = 0; k < inside; ++k) {
    Members across;
    for (const auto& [node, devices] : by_node) across.push_back(devices[k]);
    between.rings.push_back(add_ring(across));
  }
  return {in_nodes, between, in_nodes};
}

// All hops of a step go at once: it takes as long as its slowest, or as those together that share a
// medium, and the longest latency.
Route Network::ring_of(const Members& members) {
  Route ring;
  struct Crossed {
    double seconds_per_byte = 0, hops = 0;
  };
  std::map<std::size_t, Crossed> media;
  for (std::size_t k = 0; members.size() > 1 && k < members.size(); ++k) {
    const Route hop = route_between(members[k], members[(k + 1) % members.size()]);
    ring.latency = std::max(ring.latency, hop.latency);
    ring.speed = PiecewiseSpeed::slower(ring.speed, hop.speed);
    ring.seconds_per_byte = std::max(ring.seconds_per_byte, hop.seconds_per_byte);
    for (const std::size_t medium : hop.media) {
      ring.seconds_per_byte = std::max(ring.seconds_per_byte, media[medium].seconds_per_byte += hop.seconds_per_byte);
      ++media[medium].hops;
    }
  }
  for (const auto& [medium, crossed] : media) {
    ring.media.push_back(medium);
    ring.crossings.push_back(crossed.hops);
  }
  return ring;
}

Route Network::route_between(DeviceId from, DeviceId to) {
  Route route;
  double slowest = kInfinity;
  for (const Hop& hop : paths_.between(from, to)) {
    const Link& link = hop.link;
    route.latency += link.latency.value;
    slowest = std::min(slowest, link.bandwidth);
    if (link.bandwidth == kInfinity) continue;
    // A group's direction is seen from the end where it sits: out of link.from travelling along
    // the link, into link.to.
    if (link.group >= 0)
      occupy(route, {1, static_cast<std::size_t>(link.group), link.duplex && hop.reversed}, link.bandwidth);
    if (link.to_group >= 0)
      occupy(route, {1, static_cast<std::size_t>(link.to_group), link.duplex && !hop.reversed}, link.bandwidth);
    if (link.group < 0 && link.to_group < 0)
      occupy(route, {0, hop.number, link.duplex && hop.reversed}, link.bandwidth);
  }
  route.seconds_per_byte = 1 / slowest;
  if (interference_) route.speed = speed_between(from, to);
  std::ranges::sort(route.media);
  route.media.erase(std::unique(route.media.begin(), route.media.end()), route.media.end());
  route.crossings.assign(route.media.size(), 1);
  return route;
}

// The slowest link of the path at every moment, as a part of what the path carries undisturbed.
PiecewiseSpeed Network::speed_between(DeviceId from, DeviceId to) {
  struct LinkSpeed {
    PiecewiseSpeed speed;
    double bandwidth;
  };
  std::vector<LinkSpeed> links;
  double slowest = kInfinity;
  for (const Hop& hop : paths_.between(from, to)) {
    const Link& link = hop.link;
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

void Network::occupy(Route& route, const Medium& medium, double bandwidth) {
  const std::size_t number = media_.try_emplace(medium, media_.size()).first->second;
  if (number == capacities_.size()) capacities_.push_back(0);
  capacities_[number] = std::max(capacities_[number], bandwidth);
  route.media.push_back(number);
}

}  // namespace sluice
