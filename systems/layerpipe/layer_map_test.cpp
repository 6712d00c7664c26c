#include "systems/layerpipe/layer_map.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace sluice {
namespace {

double total(const std::vector<LayerTasks>& layers) {
  return std::accumulate(layers.begin(), layers.end(), 0.0, [](double sum, const LayerTasks& l) {
    return sum + l.forward + l.input_gradient + l.weight_gradient;
  });
}

double best_period(const std::vector<LayerTasks>& layers, int processors, bool divides) {
  double best = std::numeric_limits<double>::infinity();
  for (const LayerMap& map : layer_maps(layers, processors, divides)) best = std::min(best, map.period);
  return best;
}

// The least period of a chain in which every group keeps all its tasks (what PipeDream's straight plan has).
double straight_period(const std::vector<LayerTasks>& layers, int processors) {
  const std::function<double(std::size_t, int)> rest = [&](std::size_t from, int groups) {
    if (from == layers.size()) return 0.0;
    if (groups == 0) return std::numeric_limits<double>::infinity();
    double best = std::numeric_limits<double>::infinity(), load = 0;
    for (std::size_t to = from; to < layers.size(); ++to) {
      load += layers[to].forward + layers[to].input_gradient + layers[to].weight_gradient;
      best = std::min(best, std::max(load, rest(to + 1, groups - 1)));
    }
    return best;
  };
  return rest(0, processors);
}

// Every cut and every processor for every W; without divided products.
double exact_period(const std::vector<LayerTasks>& layers, int processors) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<double> load(processors, 0), weights;
  const std::function<void(std::size_t)> place = [&](std::size_t s) {
    if (s == weights.size()) {
      best = std::min(best, *std::ranges::max_element(load));
      return;
    }
    for (double& one : load) {
      one += weights[s];
      place(s + 1);
      one -= weights[s];
    }
  };
  const std::function<void(std::size_t)> cut = [&](std::size_t from) {
    if (from == layers.size()) return place(0);
    if (weights.size() == load.size()) return;
    const std::size_t group = weights.size();
    weights.push_back(0);
    for (std::size_t to = from; to < layers.size(); ++to) {
      load[group] += layers[to].forward + layers[to].input_gradient;
      weights[group] += layers[to].weight_gradient;
      cut(to + 1);
    }
    load[group] = 0;
    weights.pop_back();
  };
  cut(0);
  return best;
}

// What the map says, added up again.
double period_of(const LayerMap& map, const std::vector<LayerTasks>& layers, int processors) {
  std::vector<double> load(processors, 0);
  for (int s = 0; s < map.groups(); ++s) {
    for (int l = map.first[s]; l < map.first[s + 1]; ++l) {
      load[s] += layers[l].forward + layers[l].input_gradient;
      load[map.weight_gradient[s]] += layers[l].weight_gradient;
    }
    if (map.passed_channels[s] == 0) continue;
    const LayerTasks& product = layers[map.first[s]];
    const double passed = product.product_input_gradient * map.passed_channels[s] / product.channels;
    load[s] -= passed;
    load[s - 1] += passed;
  }
  return *std::ranges::max_element(load);
}

TEST(LayerMap, TheWeightGradientsOfTwoEqualGroupsShareAThirdProcessor) {
  const std::vector<LayerTasks> layers(2, {1, 1, 1, 0, 0});
  const LayerMap map = map_groups(layers, {0, 1, 2}, 3, false);
  EXPECT_DOUBLE_EQ(map.period, 2);
  EXPECT_EQ(map.weight_gradient, (std::vector<int>{2, 2}));
}

TEST(LayerMap, EveryTaskStaysWhereItsProcessorHasRoom) {
  const std::vector<LayerTasks> layers(4, {1, 1, 1, 0, 0});
  const LayerMap map = map_groups(layers, {0, 1, 2, 3, 4}, 4, true);
  EXPECT_DOUBLE_EQ(map.period, 3);
  EXPECT_EQ(map.weight_gradient, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(map.passed_channels, (std::vector<int>{0, 0, 0, 0}));
}

TEST(LayerMap, AGroupPassesOnWhatItMustOfItsFirstProduct) {
  // Loads of F and I 2 and 6, of which 4 the product's with 8 channels: 4 channels take 2, and both have 4.
  const std::vector<LayerTasks> layers{{1, 1, 0, 0, 0}, {2, 4, 0, 8, 4}};
  const LayerMap map = map_groups(layers, {0, 1, 2}, 2, true);
  EXPECT_DOUBLE_EQ(map.period, 4);
  EXPECT_EQ(map.passed_channels, (std::vector<int>{0, 4}));
  EXPECT_DOUBLE_EQ(map_groups(layers, {0, 1, 2}, 2, false).period, 6);
}

TEST(LayerMap, ChannelsAreWholeAndOneStays) {
  // Of 2 channels that take 5 each only one may go.
  const std::vector<LayerTasks> layers{{0, 0, 0, 0, 0}, {0, 10, 0, 2, 10}};
  const LayerMap map = map_groups(layers, {0, 1, 2}, 2, true);
  EXPECT_EQ(map.passed_channels, (std::vector<int>{0, 1}));
  EXPECT_DOUBLE_EQ(map.period, 5);
}

TEST(LayerMap, AWeightGradientStaysWhereItsMessageWouldTakeLongerThanThePeriod) {
  std::vector<LayerTasks> layers(2, {1, 1, 1, 0, 0});
  layers[0].stash_message = 2.5;
  EXPECT_DOUBLE_EQ(map_groups(layers, {0, 1, 2}, 3, false).period, 2.5);
  layers[0].stash_message = 9;
  EXPECT_DOUBLE_EQ(map_groups(layers, {0, 1, 2}, 3, false).period, 3);
}

std::vector<LayerTasks> any_layers(int most) {
  std::vector<LayerTasks> layers;
  const int count = *rc::gen::inRange(1, most);
  for (int l = 0; l < count; ++l) {
    const double f = *rc::gen::inRange(1, 20), w = *rc::gen::inRange(0, 20);
    layers.push_back({f, f, w, *rc::gen::elementOf(std::vector<int>{0, 2, 16}), f / 2});
  }
  return layers;
}

RC_GTEST_PROP(LayerMap, APeriodIsTheLoadOfTheBusiestProcessor, ()) {
  const auto layers = any_layers(9);
  const int processors = *rc::gen::inRange(1, 6);
  for (const bool divides : {false, true})
    for (const LayerMap& map : layer_maps(layers, processors, divides)) {
      RC_ASSERT(std::abs(period_of(map, layers, processors) - map.period) < 1e-9 * total(layers));
      RC_ASSERT(map.period >= total(layers) / processors - 1e-9 * total(layers));
    }
}

RC_GTEST_PROP(LayerMap, IsNeverSlowerThanAStraightChainAndDividingNeverHurts, ()) {
  const auto layers = any_layers(9);
  const int processors = *rc::gen::inRange(1, 6);
  const double whole = best_period(layers, processors, false);
  RC_ASSERT(whole <= straight_period(layers, processors) * (1 + 1e-9));
  RC_ASSERT(best_period(layers, processors, true) <= whole * (1 + 1e-9));
}

// The list schedule is no exact search: over all cases it is within a twentieth of one on average.
TEST(LayerMap, IsCloseToTheExactPeriodOfSmallChains) {
  std::uint32_t state = 7;
  const auto any = [&](int most) {
    state = state * 1664525u + 1013904223u;
    return static_cast<double>(state >> 16) / 65536.0 * most;
  };
  double sum = 0, worst = 0;
  const int cases = 200;
  for (int n = 0; n < cases; ++n) {
    std::vector<LayerTasks> layers(3 + n % 4);
    for (LayerTasks& layer : layers) layer = {any(10), any(10), any(10), 0, 0};
    const int processors = 2 + n % 3;
    const double ratio = best_period(layers, processors, false) / exact_period(layers, processors);
    EXPECT_GE(ratio, 1 - 1e-9);
    sum += ratio;
    worst = std::max(worst, ratio);
  }
  EXPECT_LE(sum / cases, 1.05);
  EXPECT_LE(worst, 4.0 / 3 + 1e-9);
}

}  // namespace
}  // namespace sluice
