#include "harness/sim/simulate.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <stdexcept>

namespace sluice {

Costs costs_of(const Plan& plan, const CostGraph& graph, const Cluster& cluster) {
  Costs costs{stage_costs(plan, graph, cluster), {}};
  const StageGraph stages = stage_graph(plan, graph);
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (const StageId t : stages.successors[s])
      costs.edges.push_back({StageId(s), t, edge_bytes(plan, graph, StageId(s), t)});
  return costs;
}

Costs uniform_costs(int stages, double forward, double input_gradient, double weight_gradient) {
  StageCost cost{Seconds(forward), Seconds(input_gradient), Seconds(weight_gradient), Seconds(0),
                 Bytes(0)};
  return {std::vector<StageCost>(static_cast<std::size_t>(stages), cost), {}};
}

Cluster latency_cluster(int ranks, Seconds latency) {
  Cluster cluster{.name = "uniform",
                  .source = "",
                  .devices = std::vector<Device>(static_cast<std::size_t>(ranks)),
                  .links = {}};
  // A star would do for the latency, but a link a pair keeps the path search trivial for any rank
  // count.
  for (int r = 0; r + 1 < ranks; ++r)
    cluster.links.push_back(
        {DeviceId(r), DeviceId(r + 1), std::numeric_limits<double>::infinity(), latency, true, -1});
  return cluster;
}

std::vector<DeviceId> identity_devices(int ranks) {
  std::vector<DeviceId> devices;
  for (int r = 0; r < ranks; ++r) devices.emplace_back(r);
  return devices;
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What one channel's messages cost, and the media they occupy.
struct Route {
  double latency = 0;
  double seconds_per_byte = 0;
  std::vector<std::size_t> media;
};

class Network {
 public:
  Network(const Program& program, const Cluster& cluster, std::span<const DeviceId> devices) {
    std::map<std::tuple<int, std::size_t, bool>, std::size_t>
        numbers;  // (kind, link or group, direction)
    for (const Channel& c : program.channels) {
      Route route = route_between(cluster, devices[c.from.index()], devices[c.to.index()], numbers);
      for (const std::size_t medium : route.media) senders_[medium].insert(c.from);
      routes_.push_back(std::move(route));
    }
    busy_until_.assign(numbers.size(), 0);
    for (std::size_t s = 0; s < program.placement.stages.size(); ++s) {
      const auto& ranks = program.placement.stages[s];
      Ring ring;
      for (std::size_t k = 0; ranks.size() > 1 && k < ranks.size(); ++k) {
        std::map<std::tuple<int, std::size_t, bool>, std::size_t> unused;
        const Route hop = route_between(cluster, devices[ranks[k].index()],
                                        devices[ranks[(k + 1) % ranks.size()].index()], unused);
        ring.latency = std::max(ring.latency, hop.latency);
        ring.seconds_per_byte = std::max(ring.seconds_per_byte, hop.seconds_per_byte);
      }
      rings_.push_back(ring);
    }
  }

  // True if no medium is used by two senders: then each sender's own order is the queue's order,
  // and ranks may run ahead of one another in any order.
  bool exclusive() const {
    return std::ranges::all_of(senders_,
                               [](const auto& medium) { return medium.second.size() == 1; });
  }

  double arrival(std::size_t channel, double now, double bytes) {
    const Route& route = routes_[channel];
    const double transfer = bytes * route.seconds_per_byte;
    double start = now;
    if (transfer > 0) {
      for (const std::size_t m : route.media) start = std::max(start, busy_until_[m]);
      for (const std::size_t m : route.media) busy_until_[m] = start + transfer;
    }
    return start + transfer + route.latency;
  }

  // Ring all-reduce: 2 (n - 1) steps of bytes / n.
  double all_reduce_seconds(StageId stage, std::size_t replicas, double bytes) const {
    const Ring& ring = rings_[stage.index()];
    const double n = static_cast<double>(replicas);
    return 2 * (n - 1) * (bytes / n * ring.seconds_per_byte + ring.latency);
  }

 private:
  struct Ring {
    double latency = 0, seconds_per_byte = 0;
  };

  static Route route_between(const Cluster& cluster, DeviceId from, DeviceId to,
                             std::map<std::tuple<int, std::size_t, bool>, std::size_t>& numbers) {
    Route route;
    double slowest = kInfinity;
    if (from == to) return route;
    for (const Hop& hop : path(cluster, from, to)) {
      const Link& link = cluster.links[hop.link];
      route.latency += link.latency.value;
      slowest = std::min(slowest, link.bandwidth);
      const bool direction = link.duplex && hop.reversed;
      const auto key = link.group >= 0
                           ? std::tuple(1, static_cast<std::size_t>(link.group), direction)
                           : std::tuple(0, hop.link, direction);
      if (link.bandwidth != kInfinity)
        route.media.push_back(numbers.try_emplace(key, numbers.size()).first->second);
    }
    route.seconds_per_byte = 1 / slowest;
    std::ranges::sort(route.media);
    route.media.erase(std::unique(route.media.begin(), route.media.end()), route.media.end());
    return route;
  }

  std::vector<Route> routes_;
  std::vector<Ring> rings_;
  std::vector<double> busy_until_;
  std::map<std::size_t, std::set<Rank>> senders_;
};

class Engine {
 public:
  Engine(const Program& program, const Costs& costs, const Cluster& cluster,
         std::span<const DeviceId> devices, const SimulateOptions& options)
      : program_(program),
        costs_(costs),
        options_(options),
        network_(program, cluster, devices),
        ranks_(program.ranks.size()),
        channels_(program.channels.size()),
        groups_(program.placement.stages.size()) {
    edges_.resize(program.graph.size());
    for (const SimulatedEdge& e : costs.edges) {
      edges_[e.from.index()].push_back({e.to, static_cast<double>(e.bytes.value)});
      edges_[e.to.index()].push_back({e.from, static_cast<double>(e.bytes.value)});
    }
    for (std::size_t c = 0; c < channels_.size(); ++c)
      channels_[c].arrivals.reserve(static_cast<std::size_t>(program.channels[c].messages));
    result_.update_end.assign(static_cast<std::size_t>(options.iterations * program.updates), 0);
    if (options.trace) result_.trace.ranks.resize(ranks_.size());
  }

  Simulation run() {
    if (network_.exclusive()) {
      run_in_any_order();
    } else {
      run_in_time_order();
    }
    for (const RankState& rank : ranks_)
      if (rank.iteration < options_.iterations)
        throw std::logic_error("the simulated program is deadlocked");
    finish_bubbles();
    return std::move(result_);
  }

 private:
  struct RankState {
    double clock = 0, first = kInfinity, last = 0,
           busy = 0;  // the last three: iteration 0, compute only
    std::size_t next = 0;
    int iteration = 0;
  };
  struct ChannelState {
    std::vector<double> arrivals;
    std::size_t taken = 0;
    int waiting_rank = -1;
  };
  struct GroupState {
    std::vector<std::size_t> waiting;
    double latest = 0;
  };

  bool finished(const RankState& rank) const { return rank.iteration >= options_.iterations; }

  // Runs one instruction of rank r. False: it is blocked (and registered with what it waits for).
  // Ranks that this instruction set free are pushed through `wake`.
  template <class Wake>
  bool execute(std::size_t r, Wake wake) {
    RankState& rank = ranks_[r];
    const auto& program = program_.ranks[r];
    if (rank.next == program.size()) {
      rank.next = 0;
      ++rank.iteration;
      return true;
    }
    const Instruction& i = program[rank.next];
    switch (i.what) {
      case Do::receive_activation:
      case Do::receive_gradient: {
        ChannelState& channel = channels_[static_cast<std::size_t>(i.channel)];
        if (channel.taken == channel.arrivals.size()) {
          channel.waiting_rank = static_cast<int>(r);
          return false;
        }
        rank.clock = std::max(rank.clock, channel.arrivals[channel.taken++]);
        if (channel.taken ==
            channel.arrivals.size()) {  // keeps the queue short over many iterations
          channel.arrivals.clear();
          channel.taken = 0;
        }
        break;
      }
      case Do::send_activation:
      case Do::send_gradient: {
        const auto c = static_cast<std::size_t>(i.channel);
        ChannelState& channel = channels_[c];
        channel.arrivals.push_back(network_.arrival(c, rank.clock, message_bytes(i)));
        if (channel.waiting_rank >= 0) {
          wake(static_cast<std::size_t>(channel.waiting_rank), channel.arrivals.back());
          channel.waiting_rank = -1;
        }
        break;
      }
      case Do::reduce_gradients: {
        GroupState& group = groups_[i.stage.index()];
        const std::size_t members = program_.placement.stages[i.stage.index()].size();
        group.latest = std::max(group.latest, rank.clock);
        if (group.waiting.size() + 1 < members) {
          group.waiting.push_back(r);
          return false;
        }
        const double start = group.latest;
        const double end =
            start + network_.all_reduce_seconds(i.stage, members,
                                                static_cast<double>(stage(i).parameters.value));
        for (const std::size_t member : group.waiting) {
          record(member, program_.ranks[member][ranks_[member].next], start, end);
          ranks_[member].clock = end;
          ++ranks_[member].next;
          wake(member, end);
        }
        record(r, i, start, end);
        rank.clock = end;
        group = {};
        break;
      }
      case Do::optimizer_step: {
        const double start = rank.clock;
        rank.clock += stage(i).update.value;
        record(r, i, start, rank.clock);
        double& update = result_.update_end[static_cast<std::size_t>(
            rank.iteration * program_.updates + i.micro.value)];
        update = std::max(update, rank.clock);
        break;
      }
      default:
        compute(r, i);
    }
    ++rank.next;
    ++result_.instructions;
    return true;
  }

  void compute(std::size_t r, const Instruction& i) {
    RankState& rank = ranks_[r];
    const StageCost& cost = stage(i);
    double seconds = 0;
    switch (i.what) {
      case Do::forward:
        seconds = cost.forward.value;
        break;
      case Do::input_gradient:
        seconds = cost.input_gradient.value;
        break;
      case Do::weight_gradient:
        seconds = cost.weight_gradient.value;
        break;
      default:
        seconds = cost.input_gradient.value + cost.weight_gradient.value;
    }
    const double start = rank.clock;
    rank.clock += seconds;
    if (rank.iteration == 0) {
      rank.first = std::min(rank.first, start);
      rank.last = rank.clock;
      rank.busy += seconds;
    }
    record(r, i, start, rank.clock);
  }

  void record(std::size_t r, const Instruction& i, double start, double end) {
    if (options_.trace && ranks_[r].iteration == 0)
      result_.trace.ranks[r].push_back({i, start, end});
  }

  const StageCost& stage(const Instruction& i) const { return costs_.stages[i.stage.index()]; }

  double message_bytes(const Instruction& i) const {
    for (const auto& [peer, bytes] : edges_[i.stage.index()])
      if (peer == i.peer_stage) return bytes;
    return 0;
  }

  void run_in_any_order() {
    std::vector<std::size_t> ready;
    for (std::size_t r = ranks_.size(); r-- > 0;) ready.push_back(r);
    while (!ready.empty()) {
      const std::size_t r = ready.back();
      ready.pop_back();
      const auto wake = [&](std::size_t other, double) { ready.push_back(other); };
      while (!finished(ranks_[r]) && execute(r, wake)) {
      }
    }
  }

  void run_in_time_order() {
    using Entry = std::pair<double, std::size_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (std::size_t r = 0; r < ranks_.size(); ++r) ready.push({0.0, r});
    while (!ready.empty()) {
      const std::size_t r = ready.top().second;
      ready.pop();
      const auto wake = [&](std::size_t other, double time) {
        ready.push({std::max(time, ranks_[other].clock), other});
      };
      if (!finished(ranks_[r]) && execute(r, wake)) ready.push({ranks_[r].clock, r});
    }
  }

  void finish_bubbles() {
    Bubbles& b = result_.bubble;
    double first = kInfinity, last = 0, idle = 0, busiest = 0;
    for (const RankState& rank : ranks_) {
      first = std::min(first, rank.first);
      last = std::max(last, rank.last);
      busiest = std::max(busiest, rank.busy);
      if (rank.last > rank.first) b.max_span = std::max(b.max_span, rank.last - rank.first);
      result_.end = std::max(result_.end, rank.clock);
    }
    if (!(last > first)) return;
    b.makespan = last - first;
    for (const RankState& rank : ranks_) {
      b.idle.push_back(b.makespan - rank.busy);
      idle += b.idle.back();
    }
    b.bubble_ratio = idle / (static_cast<double>(ranks_.size()) * b.makespan);
    b.span_bubble = 1 - busiest / b.max_span;
  }

  const Program& program_;
  const Costs& costs_;
  SimulateOptions options_;
  Network network_;
  std::vector<RankState> ranks_;
  std::vector<ChannelState> channels_;
  std::vector<GroupState> groups_;
  std::vector<std::vector<std::pair<StageId, double>>> edges_;
  Simulation result_;
};

}  // namespace

Simulation simulate(const Program& program, const Costs& costs, const Cluster& cluster,
                    std::span<const DeviceId> rank_devices, const SimulateOptions& options) {
  return Engine(program, costs, cluster, rank_devices, options).run();
}

}  // namespace sluice
