#include "baselines/dapple/dapple_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/stop.h"
#include "harness/plan/machines.h"
#include "harness/plan/search.h"

namespace sluice {

namespace {

using Counts = std::vector<int>;  // devices used, per machine; each machine gives out its first ones

// Devices of a stage and what depends on nothing else.
struct DeviceSet {
  std::vector<DeviceId> devices;
  double within = 0;  // bytes/s of the slowest pair
  double speed = 1;   // of the slowest
  double memory = 0;  // bytes of the smallest
  Counts used_after;  // by this stage and all before it
};

struct Partial {  // a plan for the first groups
  std::vector<DappleStage> stages;
  std::vector<LatencyStage> timed;  // its stages and the network between them
  double latency = kNever;          // with the rest as one stage
};

class Costs {
 public:
  Costs(const LayerGroupGraph& graph, const Cluster& cluster, int devices)
      : cluster_(cluster), bandwidths_(cluster, devices), crossing_(bytes_over_cuts(graph)) {
    forward_ = backward_ = gradients_ = resident_ = kept_ = {0};
    for (const LayerGroup& group : graph.groups) {
      forward_.push_back(forward_.back() + group.forward);
      backward_.push_back(backward_.back() + group.backward);
      gradients_.push_back(gradients_.back() + group.gradients);
      resident_.push_back(resident_.back() + group.resident);
      kept_.push_back(kept_.back() + group.kept);
    }
  }

  DeviceSet device_set(const std::vector<DeviceId>& devices) const {
    DeviceSet set{.devices = devices, .within = bandwidths_.within(devices), .speed = kNever, .memory = kNever};
    for (const DeviceId d : devices) {
      const Device& device = cluster_.devices[d.index()];
      set.speed = std::min(set.speed, device.speed);
      set.memory = std::min(set.memory, static_cast<double>(device.memory.value));
    }
    return set;
  }

  LatencyStage compute(int first, int last, const DeviceSet& set) const {
    const double r = static_cast<double>(set.devices.size());
    return {between(forward_, first, last) / (r * set.speed), between(backward_, first, last) / (r * set.speed),
            r == 1 ? 0 : 2 * (r - 1) / r * between(gradients_, first, last) / set.within};
  }

  // F + B of compute() is work() times seconds_of_work(), except for rounding.
  double work(int first, int last) const { return between(forward_, first, last) + between(backward_, first, last); }
  static double seconds_of_work(const DeviceSet& set) {
    return 1 / (static_cast<double>(set.devices.size()) * set.speed);
  }

  // Parts of a micro-batch travel side by side, as many as the smaller side has devices.
  LatencyStage network(int cut, std::size_t senders, std::size_t receivers, double across) const {
    const double seconds = crossing_[cut] / static_cast<double>(std::min(senders, receivers)) / across;
    return {seconds, seconds, 0};
  }

  // Weights and gradients, and the activations of the micro-batches in flight.
  bool fits(int first, int last, const DeviceSet& set, int in_flight) const {
    return between(resident_, first, last) +
               in_flight * between(kept_, first, last) / static_cast<double>(set.devices.size()) <=
           set.memory;
  }

  const Bandwidths& bandwidths() const { return bandwidths_; }

 private:
  static double between(const std::vector<double>& sums, int first, int last) { return sums[last] - sums[first]; }
  const Cluster& cluster_;
  Bandwidths bandwidths_;
  std::vector<double> crossing_, forward_, backward_, gradients_, resident_, kept_;
};

class DappleSearch {
 public:
  DappleSearch(const LayerGroupGraph& graph, const Cluster& cluster, const DappleOptions& options)
      : options_(options),
        groups_(static_cast<int>(graph.groups.size())),
        costs_(graph, cluster, options.devices),
        deadline_(options.limits.seconds) {
    const MachineTree tree = machine_tree(costs_.bandwidths());
    const auto each = static_cast<std::size_t>(tree.counts.front());
    for (std::size_t d = 0; d < tree.order.size(); d += each)
      machines_.emplace_back(tree.order.begin() + static_cast<std::ptrdiff_t>(d),
                             tree.order.begin() + static_cast<std::ptrdiff_t>(d + each));
  }

  DappleResult run() {
    Partial nothing;
    const Counts none(machines_.size(), 0);
    finish(nothing, 0, rest_of(none), {}, costs_.compute(0, groups_, rest_of(none)));
    states_of(none)[0] = nothing;
    DappleResult result;
    for (int first = 0; first < groups_; ++first)
      for (const auto& [used, partials] : states_) {  // those that extend() adds are behind, and not of `first`
        if (!partials[first]) continue;
        check_stop();
        ++result.states;
        if (deadline_.passed()) {
          result.complete = false;
          break;
        }
        extend(first, used, *partials[first]);
      }
    for (const auto& [stages, found] : best_) {
      DapplePlan& plan = result.by_stages[stages];
      plan = {found.stages, pipeline_latency(found.timed, options_.microbatches)};
      if (result.best.stages.empty() || plan.latency.seconds < result.best.latency.seconds) result.best = plan;
    }
    return result;
  }

 private:
  // `wanted` devices by a policy, after `used`.
  DeviceSet choose(DapplePolicy policy, Counts used, int wanted) const {
    std::vector<DeviceId> devices;
    const auto take = [&](std::size_t machine) { devices.push_back(machines_[machine][used[machine]++]); };
    const auto full = [&](std::size_t m) { return used[m] == static_cast<int>(machines_[m].size()); };
    const auto done = [&] { return static_cast<int>(devices.size()) == wanted; };
    if (policy == DapplePolicy::scatter) {
      while (!done())
        for (std::size_t m = 0; m < machines_.size() && !done(); ++m)
          if (!full(m)) take(m);
    } else {
      const Counts before = used;
      for (const bool fresh : {policy == DapplePolicy::fresh, policy != DapplePolicy::fresh})
        for (std::size_t m = 0; m < machines_.size(); ++m)
          while ((before[m] == 0) == fresh && !full(m) && !done()) take(m);
    }
    std::ranges::sort(devices);
    DeviceSet set = costs_.device_set(devices);
    set.used_after = used;
    return set;
  }

  const DeviceSet& rest_of(const Counts& used) {
    const auto known = rests_.find(used);
    if (known != rests_.end()) return known->second;
    std::vector<DeviceId> devices;
    for (std::size_t m = 0; m < machines_.size(); ++m)
      devices.insert(devices.end(), machines_[m].begin() + used[m], machines_[m].end());
    std::ranges::sort(devices);
    return rests_.emplace(used, costs_.device_set(devices)).first->second;
  }

  // The different sets that the policies choose for 1, 2, ... devices, one left over at least.
  const std::vector<DeviceSet>& device_sets(const Counts& used) {
    const auto known = device_sets_.find(used);
    if (known != device_sets_.end()) return known->second;
    std::vector<DeviceSet>& result = device_sets_[used];
    const int left = static_cast<int>(rest_of(used).devices.size());
    for (int wanted = 1; wanted < left && wanted <= options_.max_replicas; ++wanted)
      for (const DapplePolicy policy : options_.policies) {
        DeviceSet set = choose(policy, used, wanted);
        if (std::ranges::none_of(result, [&](const DeviceSet& other) { return other.devices == set.devices; }))
          result.push_back(std::move(set));
      }
    return result;
  }

  // Of every number of groups, the plan on these devices; none: not found yet.
  std::vector<std::optional<Partial>>& states_of(const Counts& used) {
    auto& partials = states_[used];
    partials.resize(static_cast<std::size_t>(groups_));
    return partials;
  }

  // Adds the rest as one stage: the latency, and the best plan if all of it fits. into, end: what it takes; into is
  // not used where the rest is everything.
  void finish(Partial& partial, int first, const DeviceSet& rest, const LatencyStage& into, const LatencyStage& end) {
    const std::size_t stages = partial.timed.size();
    if (!partial.stages.empty()) partial.timed.push_back(into);
    partial.timed.push_back(end);
    partial.latency = pipeline_latency(partial.timed, options_.microbatches).seconds;
    const int count = static_cast<int>(partial.stages.size()) + 1;
    if (may_be_last(rest) && partial.latency < best_latency(count) && costs_.fits(first, groups_, rest, 1) &&
        all_fit(partial)) {
      Partial& best = best_[count];
      best = partial;
      best.stages.push_back({first, groups_, rest.devices});
    }
    partial.timed.resize(stages);
  }

  bool may_be_last(const DeviceSet& rest) const {
    return static_cast<int>(rest.devices.size()) <= options_.max_replicas;
  }
  double best_latency(int stages) const {
    const auto known = best_.find(stages);
    return known == best_.end() ? kNever : known->second.latency;
  }

  // Stages before the last keep more micro-batches the more stages follow (early backward).
  bool all_fit(const Partial& partial) const {
    const int stages = static_cast<int>(partial.stages.size()) + 1;
    for (int s = 0; s + 1 < stages; ++s) {
      const DappleStage& stage = partial.stages[s];
      if (!costs_.fits(stage.first, stage.last, costs_.device_set(stage.devices),
                       std::min(stages - s, options_.microbatches)))
        return false;
    }
    return true;
  }

  void extend(int first, const Counts& used, const Partial& partial) {
    const int count = static_cast<int>(partial.stages.size()) + 2;
    for (const DeviceSet& set : device_sets(used)) {
      const DeviceSet& rest = rest_of(set.used_after);
      const Bandwidths& bandwidths = costs_.bandwidths();
      const double into = partial.stages.empty() ? 0 : bandwidths.across(partial.stages.back().devices, set.devices);
      const double out = bandwidths.across(set.devices, rest.devices);
      Partial longer = partial;
      if (!partial.stages.empty())
        longer.timed.push_back(costs_.network(first, partial.stages.back().devices.size(), set.devices.size(), into));
      // No iteration is shorter than its micro-batches on the slowest stage: the pivot takes as long, without the
      // stages between the two. The factor 1 - 1e-9 allows for rounding.
      double slowest = 0;
      for (const LatencyStage& stage : longer.timed) slowest = std::max(slowest, stage.forward + stage.backward);
      const double least_share = (1 - 1e-9) * options_.microbatches, of_set = costs_.seconds_of_work(set),
                   of_rest = costs_.seconds_of_work(rest);
      longer.timed.emplace_back();
      longer.stages.push_back({first, first, set.devices});
      auto& there = states_of(set.used_after);
      for (int last = first + 1; last < groups_; ++last) {
        check_stop();
        if (!costs_.fits(first, last, set, 1)) break;
        std::optional<Partial>& known = there[last];
        const double at_least =
            least_share * std::max({slowest, costs_.work(first, last) * of_set, costs_.work(last, groups_) * of_rest});
        if (known && at_least >= known->latency && !(may_be_last(rest) && at_least < best_latency(count))) continue;
        longer.stages.back().last = last;
        longer.timed.back() = costs_.compute(first, last, set);
        finish(longer, last, rest, costs_.network(last, set.devices.size(), rest.devices.size(), out),
               costs_.compute(last, groups_, rest));
        if (!known || longer.latency < known->latency) known = longer;
      }
    }
  }

  const DappleOptions& options_;
  int groups_;
  Costs costs_;
  Deadline deadline_;
  std::vector<std::vector<DeviceId>> machines_;
  std::map<Counts, DeviceSet> rests_;
  std::map<Counts, std::vector<DeviceSet>> device_sets_;
  std::map<Counts, std::vector<std::optional<Partial>>> states_;  // the best by used devices and number of groups
  std::map<int, Partial> best_;                                   // by number of stages
};

}  // namespace

DappleResult dapple_search(const LayerGroupGraph& graph, const Cluster& cluster, const DappleOptions& options) {
  if (options.devices < 1 || options.microbatches < 1)
    throw InputError("dapple", "no devices or no micro-batches", "give at least one of each");
  return DappleSearch(graph, cluster, options).run();
}

std::vector<LatencyStage> latency_stages(const LayerGroupGraph& graph, const Cluster& cluster, int devices,
                                         const std::vector<DappleStage>& stages) {
  const Costs costs(graph, cluster, devices);
  std::vector<LatencyStage> timed;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (s > 0)
      timed.push_back(costs.network(stages[s].first, stages[s - 1].devices.size(), stages[s].devices.size(),
                                    costs.bandwidths().across(stages[s - 1].devices, stages[s].devices)));
    timed.push_back(costs.compute(stages[s].first, stages[s].last, costs.device_set(stages[s].devices)));
  }
  return timed;
}

}  // namespace sluice
