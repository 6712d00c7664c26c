#include "systems/layerpipe/layer_map.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "harness/base/index.h"
#include "harness/plan/chain_partition.h"

namespace sluice {

namespace {

// Loads that differ by less are equal: sums of the same seconds in another order.
constexpr double kRounding = 1e-12;

class Mapping {
 public:
  Mapping(const std::vector<LayerTasks>& layers, const std::vector<int>& first, int processors, bool divides)
      : layers_(layers), first_(first), processors_(processors), divides_(divides), groups_(count_of(first) - 1) {
    for (int s = 0; s < groups_; ++s) {
      double& both = own_.emplace_back(0);
      double& weight = weight_.emplace_back(0);
      double& message = message_.emplace_back(0);
      for (int l = first[s]; l < first[s + 1]; ++l) {
        both += layers[l].forward + layers[l].input_gradient;
        weight += layers[l].weight_gradient;
        message += layers[l].stash_message;
      }
    }
    longest_first_.resize(groups_);
    std::iota(longest_first_.begin(), longest_first_.end(), 0);
    std::ranges::stable_sort(longest_first_, [this](int a, int b) { return weight_[a] > weight_[b]; });
  }

  LayerMap best() {
    double most = 0, all = 0;
    for (int s = 0; s < groups_; ++s) {
      most = std::max(most, own_[s] + weight_[s]);
      all += own_[s] + weight_[s];
    }
    double low = all / processors_, high = std::max(most, low);
    LayerMap map{.first = first_}, tried = map;
    if (within(low, map)) return map;
    within(high, map);  // every group on its own processor
    while (high - low > 1e-9 * high) {
      const double middle = (low + high) / 2;
      if (within(middle, tried)) {
        std::swap(map, tried);
        high = std::min(middle, map.period);
      } else {
        low = middle;
      }
    }
    return map;
  }

 private:
  // Whether there is a map of that period or less, and the map.
  bool within(double period, LayerMap& map) {
    const double limit = period * (1 + kRounding);
    map.weight_gradient.assign(groups_, -1);
    map.passed_channels.assign(groups_, 0);
    std::vector<double>& load = load_;
    load.assign(processors_, 0);
    double longest_message = 0;
    for (int s = groups_ - 1; s >= 0; --s) {
      load[s] += own_[s];
      if (load[s] <= limit) continue;
      const LayerTasks& product = layers_[first_[s]];
      if (!divides_ || s == 0 || product.channels < 2 || product.product_input_gradient <= 0 ||
          product.product_message > limit)
        return false;
      const double of_channel = product.product_input_gradient / product.channels;
      const double channels = std::ceil((load[s] - limit) / of_channel);
      if (channels >= product.channels) return false;  // one stays, so that the group has a part of its own
      map.passed_channels[s] = static_cast<int>(channels);
      longest_message = std::max(longest_message, product.product_message);
      load[s] -= channels * of_channel;
      load[s - 1] += channels * of_channel;
    }
    for (const int s : longest_first_) {
      int where = s;
      if (load[s] + weight_[s] > limit) {
        if (message_[s] > limit) return false;
        longest_message = std::max(longest_message, message_[s]);
        where = static_cast<int>(std::ranges::min_element(load) - load.begin());
      }
      if (load[where] + weight_[s] > limit) return false;
      load[where] += weight_[s];
      map.weight_gradient[s] = where;
    }
    map.period = std::max(longest_message, *std::ranges::max_element(load));
    return true;
  }

  const std::vector<LayerTasks>& layers_;
  const std::vector<int>& first_;
  const int processors_;
  const bool divides_;
  const int groups_;
  std::vector<double> message_;       // per group: seconds of what its W is sent elsewhere
  std::vector<double> own_, weight_;  // per group: F and I; W
  std::vector<int> longest_first_;    // groups by W
  std::vector<double> load_;          // of every processor, in within()
};

// Moves one cut by one layer, again and again, as long as the period falls.
LayerMap move_cuts(const std::vector<LayerTasks>& layers, LayerMap best, int processors, bool divides,
                   std::int64_t& evaluated) {
  for (bool better = true; better;) {
    better = false;
    for (int s = 1; s < best.groups(); ++s)
      for (const int by : {-1, 1}) {
        std::vector<int> first = best.first;
        first[s] += by;
        if (first[s] <= first[s - 1] || first[s] >= first[s + 1]) continue;
        LayerMap moved = map_groups(layers, first, processors, divides);
        ++evaluated;
        if (moved.period >= best.period * (1 - kRounding)) continue;
        best = std::move(moved);
        better = true;
      }
  }
  return best;
}

}  // namespace

LayerMap map_groups(const std::vector<LayerTasks>& layers, const std::vector<int>& first, int processors,
                    bool divides) {
  return Mapping(layers, first, processors, divides).best();
}

std::vector<LayerMap> layer_maps(const std::vector<LayerTasks>& layers, int processors, bool divides,
                                 std::int64_t* evaluated) {
  std::vector<LayerMap> maps;
  std::int64_t looked_at = 0;
  std::vector<double> own(layers.size() + 1, 0), weight(layers.size() + 1, 0);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    own[l + 1] = own[l] + layers[l].forward + layers[l].input_gradient;
    weight[l + 1] = weight[l] + layers[l].weight_gradient;
  }
  const int max_groups = std::min(processors, count_of(layers));
  std::vector<std::vector<std::vector<int>>> balanced;    // by share, then by number of groups
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0})  // of W that counts as the group's own
    balanced.push_back(partitions_of_chain(count_of(layers), max_groups, [&](int from, int to) {
      return own[to] - own[from] + share * (weight[to] - weight[from]);
    }));
  for (int groups = 1; groups <= max_groups; ++groups) {
    std::vector<std::vector<int>> starts;
    for (const auto& by_groups : balanced)
      if (const std::vector<int>& first = by_groups[groups - 1]; std::ranges::find(starts, first) == starts.end())
        starts.push_back(first);
    for (int used = groups; used <= processors; ++used) {
      std::optional<LayerMap> best;
      for (const std::vector<int>& first : starts) {
        // Whole products first, so that dividing them only helps.
        LayerMap map = move_cuts(layers, map_groups(layers, first, used, false), used, false, looked_at);
        if (divides) map = move_cuts(layers, map_groups(layers, map.first, used, true), used, true, looked_at);
        ++looked_at;
        if (!best || map.period < best->period * (1 - kRounding)) best = std::move(map);
      }
      maps.push_back(std::move(best).value());
    }
  }
  if (evaluated) *evaluated += looked_at;
  return maps;
}

}  // namespace sluice
