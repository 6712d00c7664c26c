#include "harness/plan/ideal_partition.h"

#include <algorithm>
#include <limits>

#include "harness/base/stop.h"
#include "harness/plan/down_sets.h"
#include "harness/plan/search.h"

namespace sluice {

namespace {

class IdealSearch {
 public:
  IdealSearch(const OperatorGraph& graph, const SearchLimits& limits)
      : graph_(graph), groups_(group_operators(graph)), deadline_(limits.seconds) {
    sets_ = down_sets(groups_.predecessors, limits.sets);
    if (!sets_.complete) {
      complete_ = false;
      std::vector<std::vector<int>> chain(groups_.members.size());
      for (std::size_t g = 1; g < chain.size(); ++g) chain[g] = {static_cast<int>(g) - 1};
      sets_ = down_sets(chain, static_cast<std::int64_t>(chain.size()) + 1);
    }
    find_messages();
    sum_up();
  }

  IdealPartition run() {
    const std::size_t counts = static_cast<std::size_t>(graph_.cpus + 1) * (graph_.accelerators + 1);
    best_.assign(sets_.count() * counts, kNever);
    link_.assign(sets_.count() * counts, {});
    for (std::size_t k = 0; k < counts; ++k) best_[k] = 0;  // set 0 is empty
    IdealPartition result{.pairs = 1};                      // every set with itself too, as the authors count
    result.down_sets = static_cast<std::int64_t>(sets_.count());
    for (std::size_t i = 1; i < sets_.by_size.size(); ++i) {
      const int set = sets_.by_size[i];
      ++result.pairs;
      for (std::size_t j = 0; j < i; ++j) {
        const int rest = sets_.by_size[j];
        if (!sets_.within(rest, set)) continue;
        ++result.pairs;
        consider(set, rest);
      }
      carry(set);
      if (i % 256 == 0 && deadline_.passed()) return out_of_time(result);
    }
    result.load = best(sets_.full, graph_.cpus, graph_.accelerators);
    if (result.load < kNever) read(result);
    result.complete = complete_;
    return result;
  }

 private:
  struct Link {
    int rest = -1;
    bool accelerator = true;
    bool idle = false;  // this device does nothing
  };
  struct Message {                      // one operator's output, if it leaves its group
    std::vector<std::uint64_t> groups;  // its own and its readers', as bits
    double send = 0;
  };

  std::size_t place(int set, int cpus, int accelerators) const {
    return (static_cast<std::size_t>(set) * static_cast<std::size_t>(graph_.cpus + 1) +
            static_cast<std::size_t>(cpus)) *
               static_cast<std::size_t>(graph_.accelerators + 1) +
           static_cast<std::size_t>(accelerators);
  }
  double& best(int set, int cpus, int accelerators) { return best_[place(set, cpus, accelerators)]; }

  void find_messages() {
    std::vector<int> group_of(graph_.operators.size());
    for (std::size_t g = 0; g < groups_.members.size(); ++g)
      for (const int op : groups_.members[g]) group_of[op] = static_cast<int>(g);
    std::vector<Message> all(graph_.operators.size(), Message{std::vector<std::uint64_t>(sets_.words, 0), 0});
    std::vector<bool> leaves(graph_.operators.size());
    for (const auto& [from, to] : graph_.edges) {
      const auto f = static_cast<std::size_t>(from);
      for (const int end : {from, to}) {
        const auto g = static_cast<std::size_t>(group_of[end]);
        all[f].groups[g / 64] |= std::uint64_t{1} << (g % 64);
      }
      all[f].send = graph_.operators[f].send;
      if (group_of[f] != group_of[to]) leaves[f] = true;
    }
    for (std::size_t op = 0; op < all.size(); ++op)
      if (leaves[op] && all[op].send > 0) messages_.push_back(all[op]);
    split_.resize(sets_.count());
    for (std::size_t s = 0; s < sets_.count(); ++s)
      for (std::size_t m = 0; m < messages_.size(); ++m) {
        check_stop();
        bool in = false, out = false;
        for (std::size_t w = 0; w < sets_.words; ++w) {
          const std::uint64_t set = sets_.bits[s * sets_.words + w];
          in = in || (messages_[m].groups[w] & set);
          out = out || (messages_[m].groups[w] & ~set);
        }
        if (in && out) split_[s].push_back(static_cast<int>(m));
      }
  }

  void sum_up() {
    sums_.resize(sets_.count());
    for (std::size_t s = 0; s < sets_.count(); ++s)
      for (std::size_t g = 0; g < groups_.members.size(); ++g) {
        if (!sets_.contains(static_cast<int>(s), static_cast<int>(g))) continue;
        for (const int op : groups_.members[g]) {
          const Operator& o = graph_.operators[op];
          sums_[s].accelerator += o.accelerator;
          sums_[s].cpu += o.cpu;
          sums_[s].bytes += o.bytes;
          sums_[s].cpu_only += o.on_accelerator ? 0 : 1;
        }
      }
  }

  // Send costs between `set` without `rest` and everything else. A message that neither set splits
  // lies on one side; one that only `rest` splits lies in `set`, so it reaches the difference.
  double messages_of(int set, int rest) const {
    const auto s = static_cast<std::size_t>(set), r = static_cast<std::size_t>(rest);
    double cost = 0;
    for (const int m : split_[s]) {
      const Message& message = messages_[m];
      for (std::size_t w = 0; w < sets_.words; ++w)
        if (message.groups[w] & sets_.bits[s * sets_.words + w] & ~sets_.bits[r * sets_.words + w]) {
          cost += message.send;
          break;
        }
    }
    auto also = split_[s].begin();
    for (const int m : split_[r]) {
      while (also != split_[s].end() && *also < m) ++also;
      if (also == split_[s].end() || *also != m) cost += messages_[m].send;
    }
    return cost;
  }

  void consider(int set, int rest) {
    check_stop();
    const Sum& all = sums_[set];
    const Sum& less = sums_[rest];
    const double on_cpu = all.cpu - less.cpu;
    double on_accelerator = kNever;
    if (all.cpu_only == less.cpu_only && all.bytes - less.bytes <= graph_.memory)
      on_accelerator = all.accelerator - less.accelerator + messages_of(set, rest);
    for (int c = 0; c <= graph_.cpus; ++c)
      for (int a = 0; a <= graph_.accelerators; ++a) {
        double& now = best(set, c, a);
        Link& link = link_[place(set, c, a)];
        if (c > 0) {
          const double load = std::max(best(rest, c - 1, a), on_cpu);
          if (load < now) now = load, link = {rest, false};
        }
        if (a > 0) {
          const double load = std::max(best(rest, c, a - 1), on_accelerator);
          if (load < now) now = load, link = {rest, true};
        }
      }
  }

  // A device may do nothing.
  void carry(int set) {
    for (int c = 0; c <= graph_.cpus; ++c)
      for (int a = 0; a <= graph_.accelerators; ++a) {
        double& now = best(set, c, a);
        Link& link = link_[place(set, c, a)];
        if (c > 0 && best(set, c - 1, a) < now) {
          now = best(set, c - 1, a);
          link = {set, false, true};
        }
        if (a > 0 && best(set, c, a - 1) < now) {
          now = best(set, c, a - 1);
          link = {set, true, true};
        }
      }
  }

  void read(IdealPartition& result) {
    int set = sets_.full, cpus = graph_.cpus, accelerators = graph_.accelerators;
    while (set != 0) {
      const Link link = link_[place(set, cpus, accelerators)];
      --(link.accelerator ? accelerators : cpus);
      if (link.idle) continue;
      PlacedDevice device{.accelerator = link.accelerator};
      for (int g = 0; g < static_cast<int>(groups_.members.size()); ++g)
        if (sets_.contains(set, g) && !sets_.contains(link.rest, g))
          for (const int op : groups_.members[g]) device.operators.push_back(op);
      std::ranges::sort(device.operators);
      device.load = device_load(graph_, device.operators, device.accelerator);
      result.devices.insert(result.devices.begin(), device);
      set = link.rest;
    }
  }

  // The best so far when the time is out: everything on one device.
  IdealPartition out_of_time(IdealPartition result) const {
    std::vector<int> all(graph_.operators.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    const Sum& sum = sums_[sets_.full];
    const bool fits = graph_.accelerators > 0 && sum.cpu_only == 0 && sum.bytes <= graph_.memory;
    result.complete = false;
    result.load = kNever;
    if (fits || graph_.cpus > 0) {
      result.load = device_load(graph_, all, fits);
      result.devices = {{.accelerator = fits, .operators = all, .load = result.load}};
    }
    return result;
  }

  struct Sum {
    double accelerator = 0, cpu = 0, bytes = 0;
    int cpu_only = 0;
  };

  const OperatorGraph& graph_;
  OperatorGroups groups_;
  Deadline deadline_;
  DownSets sets_;
  std::vector<Message> messages_;
  std::vector<std::vector<int>> split_;  // per set: messages with ends on both sides, ascending
  std::vector<Sum> sums_;                // per set
  std::vector<double> best_;
  std::vector<Link> link_;
  bool complete_ = true;
};

}  // namespace

IdealPartition ideal_partition(const OperatorGraph& graph, const SearchLimits& limits) {
  return IdealSearch(graph, limits).run();
}

double device_load(const OperatorGraph& graph, const std::vector<int>& operators, bool accelerator) {
  std::vector<bool> here(graph.operators.size());
  double load = 0;
  for (const int op : operators) {
    here[op] = true;
    const Operator& o = graph.operators[op];
    load += accelerator ? o.accelerator : o.cpu;
  }
  if (!accelerator) return load;
  std::vector<bool> pays(graph.operators.size());
  for (const auto& [from, to] : graph.edges)
    if (here[from] != here[to]) pays[from] = true;
  for (std::size_t op = 0; op < pays.size(); ++op)
    if (pays[op]) load += graph.operators[op].send;
  return load;
}

}  // namespace sluice
