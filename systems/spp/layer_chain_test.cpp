#include "systems/spp/layer_chain.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

// layer: {inputs, F, I, W, parameters, output, fused}
LayerCost layer(std::vector<int> inputs, double forward, std::int64_t parameters, std::int64_t output,
                bool fused = false) {
  return {.name = "l",
          .inputs = std::move(inputs),
          .forward = Seconds(forward),
          .input_gradient = Seconds(10 * forward),
          .weight_gradient = Seconds(100 * forward),
          .update = Seconds(0),
          .parameters = Bytes(parameters),
          .output = Bytes(output),
          .fused = fused};
}

CostGraph graph_of(std::vector<LayerCost> layers) {
  return {.model = "m", .source = "test", .device = "d", .micro_batch = 1, .layers = std::move(layers)};
}

TEST(LayerChainTest, FusedLayersJoinTheGroupBefore) {
  const LayerChain chain = layer_chain(
      graph_of({layer({-1}, 1, 5, 7), layer({0}, 2, 0, 7, true), layer({1}, 3, 6, 9), layer({2}, 0, 0, 4, true)}));
  EXPECT_EQ(chain.groups(), 2);
  EXPECT_EQ(chain.first_layer, (std::vector{0, 2, 4}));
  EXPECT_EQ(chain.forward, (std::vector<double>{3, 3}));
  EXPECT_EQ(chain.backward, (std::vector<double>{330, 330}));
  EXPECT_EQ(chain.parameters, (std::vector<double>{5, 6}));
  EXPECT_EQ(chain.outputs, (std::vector<double>{14, 13}));
  EXPECT_EQ(chain.cut_forward, std::vector<double>{7});
  EXPECT_EQ(chain.cut_backward, std::vector<double>{7});
  EXPECT_EQ(layers_of(chain, 0, 1), (std::vector{0, 1}));
  EXPECT_EQ(layers_of(chain, 0, 2), (std::vector{0, 1, 2, 3}));
}

// 0 -> 1 -> 2 -> 3, and 0 also to 2 and 3: one tensor over each cut, whoever reads it.
TEST(LayerChainTest, ASkipConnectionCrossesEveryCutItSpansOnce) {
  const LayerChain chain = layer_chain(
      graph_of({layer({-1}, 1, 0, 10), layer({0}, 1, 0, 20), layer({1, 0}, 1, 0, 40), layer({2, 0}, 1, 0, 80)}));
  EXPECT_EQ(chain.cut_forward, (std::vector<double>{10, 30, 50}));
}

TEST(LayerChainTest, TheModelsInputCrossesNothing) {
  const LayerChain chain = layer_chain(graph_of({layer({-1}, 1, 0, 1), layer({0, -1}, 1, 0, 1), layer({1}, 1, 0, 1)}));
  EXPECT_EQ(chain.cut_forward, (std::vector<double>{1, 1}));
}

TEST(LayerChainTest, AFusedFirstLayerIsAGroup) {
  EXPECT_EQ(layer_chain(graph_of({layer({-1}, 1, 0, 1, true), layer({0}, 1, 0, 1)})).groups(), 2);
}

}  // namespace
}  // namespace sluice
