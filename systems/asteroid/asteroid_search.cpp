#include "systems/asteroid/asteroid_search.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "harness/base/index.h"
#include "harness/pipeline/plan.h"
#include "harness/plan/machines.h"

namespace sluice {

RoundSeconds prepend(const AsteroidStep& step, const RoundSeconds& later, int microbatches) {
  const double work = step.forward + step.backward;
  return {std::max(microbatches * work, work + later.compute), std::max(step.all_reduce, later.reduce - step.backward)};
}

namespace {

constexpr std::int64_t kMaxTableEntries = std::int64_t{1} << 21;  // about 128 MiB

// Seconds of consecutive layer groups on every device, and of what is sent for them.
class GroupSeconds {
 public:
  GroupSeconds(const LayerGroupGraph& graph, const CostGraph& costs, const Cluster& cluster, int devices)
      : bandwidths_(cluster, devices), crossing_(bytes_over_cuts(graph)) {
    for (const LayerGroup& group : graph.groups) gradients_.push_back(gradients_.back() + group.gradients);
    for (int d = 0; d < devices; ++d) {
      Plan one_each;
      for (const LayerGroup& group : graph.groups)
        one_each.stages.push_back({.layers = group.layers, .devices = {DeviceId(d)}});
      auto &forward = forward_.emplace_back(1, 0.0), &backward = backward_.emplace_back(1, 0.0);
      for (const StageCost& cost : stage_costs(one_each, costs, cluster)) {
        forward.push_back(forward.back() + cost.forward.value);
        backward.push_back(backward.back() + (cost.input_gradient + cost.weight_gradient).value);
      }
    }
  }

  bool all_alike() const {
    return std::ranges::count(forward_, forward_.front()) == std::ssize(forward_) &&
           std::ranges::count(backward_, backward_.front()) == std::ssize(backward_);
  }
  double forward(DeviceId d, int first, int last) const { return between(forward_[d.index()], first, last); }
  double backward(DeviceId d, int first, int last) const { return between(backward_[d.index()], first, last); }

  // A ring over the slowest link between any two of the devices.
  double all_reduce(const std::vector<DeviceId>& devices, int first, int last) const {
    const auto r = static_cast<double>(devices.size());
    return r == 1 ? 0 : 2 * (r - 1) / r * between(gradients_, first, last) / bandwidths_.within(devices);
  }

  // A micro-batch and its gradient over the cut before group `cut`, on the slowest link between the two stages.
  AsteroidStep message(int cut, const std::vector<DeviceId>& from, const std::vector<DeviceId>& to) const {
    const double seconds = crossing_[cut] / bandwidths_.across(from, to);
    return {seconds, seconds};
  }

 private:
  static double between(const std::vector<double>& sums, int first, int last) { return sums[last] - sums[first]; }

  Bandwidths bandwidths_;
  std::vector<double> crossing_, gradients_{0};
  std::vector<std::vector<double>> forward_, backward_;  // [device][group]: of all groups before it
};

class AsteroidSearch {
 public:
  AsteroidSearch(const LayerGroupGraph& graph, const CostGraph& costs, const Cluster& cluster,
                 const AsteroidOptions& options)
      : options_(options),
        seconds_(graph, costs, cluster, options.devices),
        groups_(count_of(graph.groups)),
        max_stages_(std::min(groups_, options.devices)) {
    for (int d = 0; d < options.devices; ++d) {
      order_.emplace_back(d);
      memory_.push_back(static_cast<double>(cluster.devices[d].memory.value));
    }
    std::ranges::stable_sort(order_, std::greater(), [&](DeviceId d) { return memory_[d.index()]; });
    const std::int64_t rows = std::int64_t{groups_} * options.devices;
    if (rows * max_stages_ > kMaxTableEntries) {
      max_stages_ = static_cast<int>(std::max<std::int64_t>(1, kMaxTableEntries / rows));
      result_.complete = false;
    }
    table_.resize(static_cast<std::size_t>(rows * max_stages_));
    on_.resize(static_cast<std::size_t>(options.devices));
    alike_ = seconds_.all_alike() && std::ranges::count(memory_, memory_.front()) == std::ssize(memory_);
  }

  AsteroidResult run() {
    const Deadline deadline(options_.limits.seconds);
    find_stages(0, groups_, 0, bytes(0, groups_));
    last_stage(on_.back(), 0, 0);  // so that there is a plan if time runs out
    for (int first = groups_ - 1; first >= 0; --first)
      for (int last = first + 1; last <= groups_; ++last) {
        if (deadline.passed()) {
          result_.complete = false;
          return finished();
        }
        const StageBytes held = bytes(first, last);
        if (held.always + held.per_micro_batch > memory_[order_.front().index()]) continue;  // of the largest device
        if (alike_) find_stages(first, last, 0, held);  // those of other devices differ in nothing
        for (int device = 0; device < options_.devices; ++device) {
          if (!alike_) find_stages(first, last, device, held);
          for (int next = device + 1; next <= options_.devices; ++next) {
            const DevicesOfStage& on = on_[next - device - 1];
            if (on.shares.empty()) continue;
            if (last == groups_ && next == options_.devices) last_stage(on, first, device);
            if (last < groups_ && next < options_.devices) stage_before(on, first, last, device, next);
          }
        }
      }
    return finished();
  }

 private:
  // A pipeline for the last layer groups on the last devices.
  struct Suffix {
    RoundSeconds round{kNever, 0};
    int last = 0, next = 0;         // where its second stage begins: layer group, place in the order of devices
    std::vector<DeviceId> devices;  // of its first stage
    int replicas = 0;               // of all its stages
  };

  // A stage on the `replicas` fastest devices of a group.
  struct Share {
    int replicas = 0;
    double forward = 0, backward = 0;  // seconds of one micro-batch
    double memory = kNever;            // bytes of the smallest device
    double work() const { return forward + backward; }
  };

  // A share that fits before a pipeline of at most `max_after` replicas and messages: asteroid_in_flight() is at most
  // n where these are at most (n - 1) times the share's replicas.
  struct FittingShare {
    Share share;
    int max_after;
  };

  struct DevicesOfStage {
    std::vector<DeviceId> fastest_first;
    std::vector<FittingShare> shares;  // by work, smallest first
  };

  // Devices for a range of layer groups.
  struct Group {
    std::vector<DeviceId> fastest_first;
    Share slowest;              // on all devices of `shares`, for every micro-batch
    std::vector<Share> shares;  // by work, smallest first
  };

  Suffix& at(int first, int device, int stages) {
    return table_[(static_cast<std::size_t>(first) * options_.devices + device) * max_stages_ + stages - 1];
  }

  // Equally fast devices, and shares of equal work, stay in the order in which they are added.
  void add_device(Group& group, DeviceId d, int first, int last) const {
    const auto work = [&](DeviceId e) { return seconds_.forward(e, first, last) + seconds_.backward(e, first, last); };
    const auto place = std::ranges::upper_bound(group.fastest_first, work(d), {}, work);
    const bool is_slowest = place == group.fastest_first.end();
    group.fastest_first.insert(place, d);
    if (!is_slowest) {
      group.slowest = {};
      group.shares.clear();
    }
    const int max_replicas = std::min({count_of(group.fastest_first), options_.max_replicas, options_.microbatches});
    for (int k = count_of(group.shares); k < max_replicas; ++k) {
      const DeviceId next = group.fastest_first[k];
      Share& slowest = group.slowest;
      slowest.forward = std::max(slowest.forward, seconds_.forward(next, first, last));
      slowest.backward = std::max(slowest.backward, seconds_.backward(next, first, last));
      slowest.memory = std::min(slowest.memory, memory_[next.index()]);
      const double part = static_cast<double>(largest_share(k + 1)) / options_.microbatches;
      const Share share{k + 1, part * slowest.forward, part * slowest.backward, slowest.memory};
      group.shares.insert(std::ranges::upper_bound(group.shares, share.work(), {}, &Share::work), share);
    }
  }

  // The max number of micro-batches of a round on one of the replicas.
  int largest_share(int replicas) const { return (options_.microbatches + replicas - 1) / replicas; }

  // The most micro-batches, up to those of a round, that fit in flight into `memory`; 0: none.
  int most_in_flight(const StageBytes& held, double memory) const {
    const auto fits = [&](int count) { return held.always + count * held.per_micro_batch <= memory; };
    if (fits(options_.microbatches)) return options_.microbatches;
    if (!fits(1)) return 0;
    const double about = (memory - held.always) / held.per_micro_batch;
    int count = std::clamp(static_cast<int>(about), 1, options_.microbatches - 1);
    while (!fits(count)) --count;
    while (fits(count + 1)) ++count;
    return count;
  }

  // Fills on_ for layer groups [first, last) on one, two, ... devices from place `device` of the order on.
  void find_stages(int first, int last, int device, const StageBytes& held) {
    Group group;
    for (int next = device + 1; next <= options_.devices; ++next) {
      add_device(group, order_[next - 1], first, last);
      DevicesOfStage& on = on_[next - device - 1];
      on.fastest_first = group.fastest_first;
      on.shares.clear();
      double memory = -1;
      int most = 0;
      for (const Share& share : group.shares) {
        if (share.memory != memory) memory = share.memory, most = most_in_flight(held, memory);
        if (most == 0) continue;
        const bool whole_round = most >= largest_share(share.replicas);
        on.shares.push_back({share, whole_round ? std::numeric_limits<int>::max() : (most - 1) * share.replicas});
      }
    }
  }

  // The fitting share with the least work, before a pipeline of these stages and replicas; null: none fits.
  const Share* least_work(const DevicesOfStage& on, int replicas_after, int stages_after) const {
    const int after = replicas_after + (options_.messages_in_flight ? stages_after : 0);
    const auto found = std::ranges::find_if(on.shares, [&](const FittingShare& f) { return after <= f.max_after; });
    return found == on.shares.end() ? nullptr : &found->share;
  }

  StageBytes bytes(int first, int last) const { return options_.bytes ? options_.bytes(first, last) : StageBytes{}; }

  // on: all devices from place `device` of the order on.
  void last_stage(const DevicesOfStage& on, int first, int device) {
    if (const Share* share = least_work(on, 0, 0))
      add(on, *share, first, groups_, device, options_.devices, nullptr, at(first, device, 1));
  }

  // on: the devices at places [device, next).
  void stage_before(const DevicesOfStage& on, int first, int last, int device, int next) {
    const int max_later = std::min({groups_ - last, options_.devices - next, max_stages_ - 1});
    for (int stages = 1; stages <= max_later; ++stages) {
      const Suffix& later = at(last, next, stages);
      if (later.round.compute == kNever) continue;
      if (const Share* share = least_work(on, later.replicas, stages))
        add(on, *share, first, last, device, next, &later, at(first, device, stages + 1));
    }
  }

  // Prepends the stage to the pipeline `later` (null: none), and keeps the result if it is the best.
  void add(const DevicesOfStage& on, const Share& share, int first, int last, int device, int next, const Suffix* later,
           Suffix& best) {
    ++result_.states;
    AsteroidStep stage{share.forward, share.backward};
    const RoundSeconds none, &rest = later ? later->round : none;
    if (prepend(stage, rest, options_.microbatches).compute >= best.round.sum()) return;  // messages only add to it
    const auto fastest = alike_ ? order_.begin() + device : on.fastest_first.begin();
    Suffix longer{.last = last,
                  .next = next,
                  .devices = {fastest, fastest + share.replicas},
                  .replicas = share.replicas + (later ? later->replicas : 0)};
    stage.all_reduce = seconds_.all_reduce(longer.devices, first, last);
    longer.round = rest;
    if (later)
      longer.round =
          prepend(seconds_.message(last, longer.devices, later->devices), longer.round, options_.microbatches);
    longer.round = prepend(stage, longer.round, options_.microbatches);
    if (longer.round.sum() < best.round.sum()) best = std::move(longer);
  }

  AsteroidResult finished() {
    for (int stages = 1; stages <= max_stages_; ++stages) {
      const Suffix* suffix = &at(0, 0, stages);
      if (suffix->round.compute == kNever) continue;
      AsteroidPlan& plan = result_.by_stages[stages];
      plan.seconds = suffix->round.sum();
      int first = 0;
      for (int left = stages; left > 0; --left) {
        plan.stages.push_back({first, suffix->last, suffix->devices});
        first = suffix->last;
        if (left > 1) suffix = &at(suffix->last, suffix->next, left - 1);
      }
    }
    return std::move(result_);
  }

  const AsteroidOptions& options_;
  GroupSeconds seconds_;
  int groups_, max_stages_;
  std::vector<DeviceId> order_;     // by memory
  std::vector<double> memory_;      // bytes of every device
  std::vector<Suffix> table_;       // at()
  bool alike_;                      // the devices are equally fast and have as much memory
  std::vector<DevicesOfStage> on_;  // [n - 1]: n devices, from find_stages()
  AsteroidResult result_;
};

}  // namespace

AsteroidResult asteroid_search(const LayerGroupGraph& graph, const CostGraph& costs, const Cluster& cluster,
                               const AsteroidOptions& options) {
  return AsteroidSearch(graph, costs, cluster, options).run();
}

}  // namespace sluice
