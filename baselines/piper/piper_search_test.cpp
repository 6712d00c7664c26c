#include "baselines/piper/piper_search.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "baselines/piper/piper_model.h"
#include "harness/base/expect_error.h"
#include "harness/plan/plan_test_support.h"
#include "harness/plan/search.h"

namespace sluice {
namespace {

// One variant a layer, as in the cases PI-1 to PI-5, whose results are those of the authors' program.
void give_variant(LayerCost& layer, int tensor, double factor, double in_flight, double always, double parameters,
                  bool recompute = false) {
  LayerVariant v{.tensor = tensor, .id = recompute ? "activation recomp" : "vanilla", .recompute = recompute};
  v.seconds = (layer.forward + layer.input_gradient + layer.weight_gradient) * factor;
  v.parameters = Bytes(static_cast<std::int64_t>(parameters));
  v.in_flight = Bytes(static_cast<std::int64_t>(in_flight));
  v.always = Bytes(static_cast<std::int64_t>(always));
  layer.variants.push_back(v);
}

CostGraph piper_chain(const std::vector<double>& seconds, const std::vector<std::int64_t>& w, double a, double b,
                      const std::vector<std::int64_t>& c) {
  CostGraph costs = chain_costs(seconds, w, c);
  for (LayerCost& layer : costs.layers) give_variant(layer, 1, 1, a, b, static_cast<double>(layer.parameters.value));
  return costs;
}

TEST(PiperSearchTest, ReplicatesWhatIsDear) {  // PI-1
  const CostGraph costs = piper_chain({4, 4, 2, 2}, {0, 0, 24, 24}, 1, 0, {3, 1, 1});
  const PiperOptions options{.devices = 3, .microbatches = 6, .bandwidth = 4, .memory = 100};
  const PiperResult result = piper_search(costs, options);
  EXPECT_DOUBLE_EQ(result.seconds, 4.5);
  ASSERT_EQ(result.stages.size(), 2u);
  EXPECT_EQ(result.stages[0].layers, (std::vector{0, 1}));
  EXPECT_EQ(result.stages[0].data, 2);
  EXPECT_DOUBLE_EQ(result.stages[0].seconds, 4.25);
  EXPECT_EQ(result.stages[1].data, 1);
  // All of it three times.
  EXPECT_DOUBLE_EQ(piper_seconds(costs, options, {{.layers = {0, 1, 2, 3}, .data = 3, .variants = {0, 0, 0, 0}}}),
                   4 + 4 * 2 * 48.0 / (3 * 6) / 4);
}

TEST(PiperSearchTest, MemoryForbidsTheReplicas) {  // PI-2
  const CostGraph costs = piper_chain({4, 4, 2, 2}, {0, 0, 24, 24}, 1, 0, {3, 1, 1});
  const PiperResult result = piper_search(costs, {.devices = 3, .microbatches = 6, .bandwidth = 4, .memory = 3});
  EXPECT_DOUBLE_EQ(result.seconds, 6);
  ASSERT_EQ(result.stages.size(), 3u);
  EXPECT_DOUBLE_EQ(result.stages[0].seconds, 5.5);
  EXPECT_DOUBLE_EQ(result.stages[1].seconds, 6);
  EXPECT_DOUBLE_EQ(result.stages[2].seconds, 4.5);
}

TEST(PiperSearchTest, NothingFits) {  // PI-3
  const CostGraph costs = piper_chain({4, 4}, {0, 0}, 1, 5, {1});
  EXPECT_TRUE(piper_search(costs, {.devices = 2, .microbatches = 2, .bandwidth = 1, .memory = 4}).stages.empty());
}

TEST(PiperSearchTest, SharesLayersBetweenDevices) {  // PI-4
  CostGraph costs = piper_chain({4, 4, 4}, {6, 6, 6}, 2, 6, {1, 1});
  for (LayerCost& layer : costs.layers) give_variant(layer, 2, 0.6, 1, 3, 3);
  const PiperOptions options{.devices = 4, .microbatches = 4, .bandwidth = 2, .memory = 12};
  const PiperResult result = piper_search(costs, options);
  EXPECT_DOUBLE_EQ(result.seconds, 5);
  ASSERT_EQ(result.stages.size(), 3u);
  EXPECT_EQ(result.stages[0].tensor, 1);
  EXPECT_EQ(result.stages[1].tensor, 2);
  EXPECT_EQ(result.stages[1].variants, std::vector{1});
  EXPECT_NEAR(result.stages[1].seconds, 4.4, 1e-12);
  EXPECT_EQ(result.stages[2].tensor, 1);
  PiperOptions no_sharing = options;
  no_sharing.tensor_parallel = false;
  EXPECT_GE(piper_search(costs, no_sharing).seconds, 5);
}

TEST(PiperSearchTest, OneDeviceTakesItAll) {  // PI-5
  CostGraph costs = piper_chain({4, 4, 4}, {6, 6, 6}, 2, 6, {1, 1});
  EXPECT_DOUBLE_EQ(piper_search(costs, {.devices = 1, .microbatches = 4, .bandwidth = 2, .memory = 24}).seconds, 12);
}

TEST(PiperSearchTest, RecomputesWhereMemoryIsShort) {
  CostGraph costs = piper_chain({3, 3}, {0, 0}, 10, 0, {0});
  for (LayerCost& layer : costs.layers) give_variant(layer, 1, 4.0 / 3, 1, 0, 0, /*recompute=*/true);
  PiperOptions options{.devices = 1, .microbatches = 1, .bandwidth = 1, .memory = 11};
  const PiperResult result = piper_search(costs, options);
  EXPECT_DOUBLE_EQ(result.seconds, 7);  // one layer again
  options.memory = 20;
  EXPECT_DOUBLE_EQ(piper_search(costs, options).seconds, 6);
  options.memory = 11;
  options.recompute = false;
  EXPECT_TRUE(piper_search(costs, options).stages.empty());
}

TEST(PiperSearchTest, LayersThatRideStayWithTheOneBefore) {
  CostGraph costs = chain_costs({3, 3, 0}, {}, {});
  costs.layers[2].fused = true;
  const PiperResult result =
      piper_search(costs, {.devices = 2, .microbatches = 4, .bandwidth = 1, .memory = 100, .max_data = 1});
  ASSERT_EQ(result.stages.size(), 2u);
  EXPECT_EQ(result.stages[1].layers, (std::vector{1, 2}));
  EXPECT_EQ(result.stages[1].variants, (std::vector{-1, -1}));
}

TEST(PiperSearchTest, TooManyDownSetsAreCutAsAChain) {
  CostGraph costs;
  for (int i = 0; i < 12; ++i) costs.layers.push_back(chain_costs({3}, {}, {}).layers[0]);
  const PiperResult result =
      piper_search(costs, {.devices = 4, .microbatches = 4, .bandwidth = 1, .memory = 100, .limits = {.sets = 100}});
  EXPECT_FALSE(result.complete);
  EXPECT_DOUBLE_EQ(result.seconds, 9);
}

TEST(PiperSearchTest, OutOfTimeKeepsAPlan) {
  const CostGraph costs = piper_chain({4, 4, 2, 2}, {0, 0, 24, 24}, 1, 0, {3, 1, 1});
  const PiperOptions options{.devices = 3, .microbatches = 6, .bandwidth = 4, .memory = 100, .limits = {.seconds = 0}};
  const PiperResult result = piper_search(costs, options);
  EXPECT_FALSE(result.complete);
  ASSERT_FALSE(result.stages.empty());
  EXPECT_DOUBLE_EQ(result.seconds, piper_seconds(costs, options, result.stages));
}

TEST(PiperSearchTest, OutOfTimeManyDownSetsAreCutAsAChainToo) {
  // Seven branches of four layers: 5^7 down-sets, of which no machine searches all pairs in a
  // fortieth of a second.
  CostGraph costs = piper_chain(std::vector<double>(28, 1), {}, 1, 0, {});
  for (int l = 0; l < 28; ++l) costs.layers[l].inputs = {l % 4 ? l - 1 : -1};
  const PiperOptions options{
      .devices = 4, .microbatches = 4, .bandwidth = 1e9, .memory = 1e9, .limits = {.seconds = 0.03, .sets = 1'000'000}};
  const PiperResult result = piper_search(costs, options);
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.down_sets, 78'125);
  ASSERT_FALSE(result.stages.empty());
  EXPECT_DOUBLE_EQ(result.seconds, piper_seconds(costs, options, result.stages));
}

TEST(PiperSearchTest, BadInputIsRejected) {
  const CostGraph costs = piper_chain({4}, {0}, 1, 0, {});
  EXPECT_NE(error_of([&] { piper_search(costs, {.devices = 0, .bandwidth = 1, .memory = 1}); }), "no error");
  EXPECT_EQ(error_of([&] { piper_search(costs, {.bandwidth = 0, .memory = 1}); }),
            "piper: the bandwidth is not positive");
}

// Every assignment of layers to stages in every order that the edges allow, with every degree and
// variant, scored from scratch.
double brute_force(const CostGraph& costs, const PiperOptions& options) {
  const int n = static_cast<int>(costs.layers.size());
  double best = kNever;
  std::vector<PiperStage> stages;
  const std::function<void(std::size_t)> pick = [&](std::size_t s) {
    if (s == stages.size()) {
      best = std::min(best, piper_seconds(costs, options, stages));
      return;
    }
    for (int tensor = 1; tensor <= 2; ++tensor)
      for (int data = 1; data <= options.devices; ++data) {
        stages[s].tensor = tensor;
        stages[s].data = data;
        const std::function<void(std::size_t)> vary = [&](std::size_t i) {
          if (i == stages[s].layers.size()) return pick(s + 1);
          const auto& variants = costs.layers[stages[s].layers[i]].variants;
          if (variants.empty() && tensor == 1) {
            stages[s].variants[i] = -1;
            for (const bool recompute : {false, true}) {
              stages[s].recompute = recompute;
              vary(i + 1);
            }
            return;
          }
          for (std::size_t v = 0; v < variants.size(); ++v) {
            if (variants[v].tensor != tensor) continue;
            stages[s].variants[i] = static_cast<int>(v);
            vary(i + 1);
          }
        };
        vary(0);
      }
  };
  std::vector<int> stage_of(static_cast<std::size_t>(n));
  const std::function<void(int, int)> assign = [&](int layer, int used) {
    if (layer == n) {
      for (int l = 0; l < n; ++l)
        for (const int p : costs.layers[l].inputs)
          if (p >= 0 && stage_of[p] > stage_of[l]) return;
      stages.assign(used, {});
      for (int l = 0; l < n; ++l) stages[stage_of[l]].layers.push_back(l);
      for (PiperStage& stage : stages) {
        if (stage.layers.empty()) return;
        stage.variants.resize(stage.layers.size());
      }
      return pick(0);
    }
    for (int s = 0; s < options.devices; ++s) {
      stage_of[layer] = s;
      assign(layer + 1, std::max(used, s + 1));
    }
  };
  assign(0, 0);
  return best;
}

TEST(PiperSearchTest, AStageWithoutVariantsRecomputesAsAWhole) {
  // Two layers of F = 1 and I + W = 2 seconds, 10 bytes of weights and 5 of output each; the first
  // of two stages holds two micro-batches: 2 * 10 + 2 * 5 bytes, or 2 * 10 + 5 recomputing.
  const CostGraph costs = chain_costs({3, 3}, {10, 10}, {5, 5});
  PiperOptions options{.devices = 2, .microbatches = 2, .bandwidth = 1e9, .memory = 30};
  const PiperResult kept = piper_search(costs, options);
  EXPECT_NEAR(kept.seconds, 3, 1e-6);
  EXPECT_FALSE(kept.stages[0].recompute);
  options.memory = 29;
  options.max_data = 1;
  const PiperResult tight = piper_search(costs, options);
  ASSERT_EQ(tight.stages.size(), 2u);
  EXPECT_TRUE(tight.stages[0].recompute);
  EXPECT_FALSE(tight.stages[1].recompute);
  EXPECT_NEAR(tight.seconds, 4, 1e-6);
  EXPECT_NEAR(piper_seconds(costs, options, tight.stages), 4, 1e-6);
  options.recompute = false;
  EXPECT_TRUE(piper_search(costs, options).stages.empty());
  options.recompute = true;
  options.memory = 24;
  EXPECT_TRUE(piper_search(costs, options).stages.empty());
}

RC_GTEST_PROP(PiperSearchTest, RecomputingStagesAreAsGoodAsBruteForce, ()) {
  const int n = *rc::gen::inRange(1, 5);
  CostGraph costs;
  for (int l = 0; l < n; ++l) {
    LayerCost layer;
    for (int p = 0; p < l; ++p)
      if (*rc::gen::inRange(0, 2)) layer.inputs.push_back(p);
    layer.forward = Seconds(*rc::gen::inRange(1, 10));
    layer.input_gradient = Seconds(*rc::gen::inRange(1, 10));
    layer.output = Bytes(*rc::gen::inRange(0, 12));
    layer.parameters = Bytes(*rc::gen::inRange(0, 4));
    costs.layers.push_back(layer);
  }
  const PiperOptions options{.devices = *rc::gen::inRange(1, 4),
                             .microbatches = *rc::gen::inRange(1, 5),
                             .bandwidth = *rc::gen::element(3.0, 1e9),
                             .memory = static_cast<double>(*rc::gen::inRange(5, 50))};
  const double best = brute_force(costs, options);
  const PiperResult result = piper_search(costs, options);
  RC_ASSERT(result.stages.empty() == std::isinf(best));
  if (result.stages.empty()) return;
  RC_ASSERT(std::abs(result.seconds - best) <= 1e-9 * best);
  RC_ASSERT(std::abs(piper_seconds(costs, options, result.stages) - best) <= 2e-9);
}

RC_GTEST_PROP(PiperSearchTest, IsAsGoodAsBruteForceOnSmallGraphs, ()) {
  const int n = *rc::gen::inRange(1, 5);
  CostGraph costs;
  for (int l = 0; l < n; ++l) {
    LayerCost layer;
    for (int p = 0; p < l; ++p)
      if (*rc::gen::inRange(0, 2)) {
        layer.inputs.push_back(p);
        layer.input_bytes.emplace_back(*rc::gen::inRange(0, 5));
      }
    layer.forward = Seconds(*rc::gen::inRange(1, 10));
    const int variants = *rc::gen::inRange(1, 3);
    for (int v = 0; v < variants; ++v)
      give_variant(layer, 1, 1 + 0.3 * v, *rc::gen::inRange(0, 6) * (v ? 0.5 : 1), *rc::gen::inRange(0, 6),
                   *rc::gen::inRange(0, 30));
    if (*rc::gen::inRange(0, 2)) give_variant(layer, 2, 0.6, 1, 1, 4);
    costs.layers.push_back(layer);
  }
  for (LayerCost& layer : costs.layers)
    for (LayerVariant& v : layer.variants)
      for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
        v.input_sync.emplace_back(*rc::gen::inRange(0, 3));
        const auto p = static_cast<std::size_t>(layer.inputs[i]);
        for (LayerVariant& w : costs.layers[p].variants)
          w.output_sync[static_cast<int>(&layer - costs.layers.data())] = Bytes(v.tensor - 1);
      }
  const PiperOptions options{.devices = *rc::gen::inRange(1, 4),
                             .microbatches = *rc::gen::inRange(1, 5),
                             .bandwidth = *rc::gen::element(1.0, 3.0, 1e9),
                             .memory = static_cast<double>(*rc::gen::inRange(5, 40)),
                             .exact_knapsack = true};
  const double best = brute_force(costs, options);
  const PiperResult result = piper_search(costs, options);
  RC_ASSERT(result.stages.empty() == std::isinf(best));
  if (result.stages.empty()) return;
  RC_ASSERT(std::abs(result.seconds - best) <= 1e-9 * best);
  RC_ASSERT(std::abs(piper_seconds(costs, options, result.stages) - best) <= 2e-9);
  RC_ASSERT(result.complete);
  // The authors' choice of variants never beats the exact one; more devices never hurt; and all
  // times and bytes per second scaled alike scale the result.
  PiperOptions greedy = options, more = options;
  greedy.exact_knapsack = false;
  more.devices += 1;
  const PiperResult with_greedy = piper_search(costs, greedy);
  RC_ASSERT(with_greedy.stages.empty() || with_greedy.seconds >= best * (1 - 1e-9));
  RC_ASSERT(piper_search(costs, more).seconds <= best * (1 + 1e-9));
  CostGraph slower = costs;
  for (LayerCost& layer : slower.layers)
    for (LayerVariant& v : layer.variants) v.seconds = v.seconds * 3;
  PiperOptions narrower = options;
  narrower.bandwidth /= 3;
  RC_ASSERT(std::abs(piper_search(slower, narrower).seconds - 3 * best) <= 1e-8 * best);
}

}  // namespace
}  // namespace sluice
