// The two parts of a divided input gradient are those columns of the whole one.
#include "harness/exec/torch/layers/divided_product.h"

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "harness/exec/torch/layers/layers.h"
#include "harness/exec/torch/stage/stage_module.h"

namespace sluice {
namespace {

const at::TensorOptions kFactorDouble = at::TensorOptions().dtype(at::kDouble);

void expect_parts_are_the_whole(const LayerSpec& layer, const Shape& input, std::vector<std::int64_t> batch_input,
                                int channels_dimension) {
  const c10::InferenceMode no_autograd;
  at::manual_seed(7);
  const std::vector<Shape> shapes{input};
  const auto whole = make_layer(layer, shapes, 0, kFactorDouble);
  std::vector<at::Tensor> weights;
  for (const ParameterSpec& p : parameters(layer)) weights.push_back(at::randn(p.shape, kFactorDouble));
  const at::Tensor x = at::randn(batch_input, kFactorDouble);
  LayerStash stash;
  const at::Tensor y = whole->forward(std::span(&x, 1), weights, {}, {}, false, &stash);
  const at::Tensor dy = at::randn(y.sizes(), kFactorDouble);
  const at::Tensor expected = whole->input_gradient(dy.clone(), weights, {true}, stash)[0];
  const std::int64_t all = weights[0].size(1);
  for (const std::int64_t passed : {std::int64_t{1}, all / 2, all - 1}) {
    SCOPED_TRACE(testing::Message() << layer.name << ": " << passed << " of " << all << " channels");
    const at::Tensor first = channel_gradient(layer, dy, channels_of_weight(weights[0], 0, all - passed), input);
    const at::Tensor others = channel_gradient(layer, dy, channels_of_weight(weights[0], all - passed, passed), input);
    EXPECT_EQ(first.size(channels_dimension), all - passed);  // a part of the product, not a part of its result
    EXPECT_EQ(others.size(channels_dimension), passed);
    EXPECT_TRUE(at::allclose(joined_channels(layer, first, others), expected, 1e-12, 1e-12));
  }
}

TEST(DividedProduct, OfALinearLayerIsTheWholeOne) {
  expect_parts_are_the_whole({"linear", Linear{12, 7}, {-1}}, {12}, {5, 12}, 1);
  expect_parts_are_the_whole({"without bias", Linear{12, 7, false}, {-1}}, {12}, {5, 12}, 1);
  expect_parts_are_the_whole({"of a sequence", Linear{12, 7}, {-1}}, {3, 12}, {5, 3, 12}, 2);
}

TEST(DividedProduct, OfAConvolutionIsTheWholeOne) {
  expect_parts_are_the_whole({"same", Conv2d{6, 4, 3, 1, 1}, {-1}}, {6, 8, 8}, {3, 6, 8, 8}, 1);
  expect_parts_are_the_whole({"strided", Conv2d{6, 4, 3, 2, 1, false}, {-1}}, {6, 9, 7}, {3, 6, 9, 7}, 1);
  expect_parts_are_the_whole({"of one pixel", Conv2d{6, 4, 1}, {-1}}, {6, 5, 5}, {3, 6, 5, 5}, 1);
}

TEST(DividedProduct, OtherLayersAreRejected) {
  EXPECT_THROW(channel_gradient({"relu", Activation{}, {-1}}, at::zeros({1, 2}), at::zeros({2, 2}), {2}),
               std::invalid_argument);
}

TEST(DividedProduct, AStageReturnsItsOwnChannelsAndWhatTheOthersNeed) {
  const c10::InferenceMode no_autograd;
  const ModelGraph model{.name = "two",
                         .inputs = {{.shape = {4}}},
                         .layers = {{"first", Linear{4, 6}, {-1}},
                                    {"second", Linear{6, 3}, {0}},
                                    {"relu", Activation{}, {1}},
                                    {"loss", MseLoss{}, {2}}}};
  const StageInterface interface {
    .receives = {0}, .sends = {}
  };
  StageModule whole(model, {1, 2, 3}, interface, kFactorDouble), divided(model, {1, 2, 3}, interface, kFactorDouble);
  divided.pass_channels(2);
  std::vector<at::Tensor> weights;
  for (const ParameterSpec& p : whole.parameters()) weights.push_back(at::randn(p.shape, kFactorDouble));
  const at::Tensor x = at::randn({5, 6}, kFactorDouble), target = at::randn({5, 3}, kFactorDouble);
  const auto run = [&](StageModule& stage) {
    StageStashTensors stash;
    at::Tensor loss;
    stage.forward(std::span(&x, 1), weights, target, {}, &stash, &loss);
    std::vector<at::Tensor> dx = stage.input_gradient({}, 1, weights, stash);
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& w : weights) gradients.push_back(at::zeros_like(w));
    StageStashTensors* one[] = {&stash};
    stage.weight_gradient(one, gradients);
    dx.insert(dx.end(), gradients.begin(), gradients.end());
    return dx;
  };
  const auto expected = run(whole), ours = run(divided);
  EXPECT_EQ(ours[0].sizes(), (std::vector<std::int64_t>{5, 4}));
  EXPECT_TRUE(at::allclose(ours[0], expected[0].narrow(1, 0, 4), 1e-12, 1e-12));
  for (std::size_t k = 1; k < ours.size(); ++k) EXPECT_TRUE(at::equal(ours[k], expected[k]));
  const StageModule::Passed passed = divided.take_passed();
  const at::Tensor rest = channel_gradient(model.layers[1], passed.output_gradient, passed.weights, {6});
  EXPECT_TRUE(at::allclose(rest, expected[0].narrow(1, 4, 2), 1e-12, 1e-12));
}

TEST(DividedProduct, AStageThatDoesNotBeginWithAProductIsRejected) {
  const ModelGraph model{
      .name = "relu first",
      .inputs = {{.shape = {4}}},
      .layers = {{"first", Linear{4, 6}, {-1}}, {"relu", Activation{}, {0}}, {"loss", MseLoss{}, {1}}}};
  StageModule stage(model, {1, 2}, {.receives = {0}, .sends = {}}, kFactorDouble);
  EXPECT_THROW(stage.pass_channels(2), std::invalid_argument);
  StageModule product(model, {0}, {.receives = {-1}, .sends = {0}}, kFactorDouble);
  EXPECT_THROW(product.pass_channels(2), std::invalid_argument);  // the model's input has no gradient
}

}  // namespace
}  // namespace sluice
