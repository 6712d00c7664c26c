#include "harness/model/layer_spec.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/base/error.h"

namespace sluice {
namespace {

LayerSpec layer(LayerKind kind) { return {.name = "l", .kind = std::move(kind), .inputs = {-1}, .block = -1}; }

Shape out(LayerKind kind, std::vector<Shape> in) { return output_shape(layer(std::move(kind)), in); }

double forward_flops(LayerKind kind, std::vector<Shape> in) { return flops(layer(std::move(kind)), in).forward.value; }

std::string shape_error_of(LayerKind kind, std::vector<Shape> in) {
  try {
    out(std::move(kind), std::move(in));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(LayerShape, LinearChangesTheLastDimensionOnly) {
  EXPECT_EQ(out(Linear{64, 10}, {{64}}), (Shape{10}));
  EXPECT_EQ(out(Linear{64, 10}, {{20, 64}}), (Shape{20, 10}));
}

TEST(LayerShape, ConvolutionAndPoolingRoundDown) {
  EXPECT_EQ(out(Conv2d{.in = 3, .out = 8, .kernel = 3, .stride = 2, .padding = 1}, {{3, 32, 30}}), (Shape{8, 16, 15}));
  // Kernels 1 x 7 and 7 x 1, padded along their length.
  EXPECT_EQ(out(Conv2d{.in = 3, .out = 8, .kernel = 1, .kernel_w = 7, .padding_w = 3}, {{3, 9, 9}}), (Shape{8, 9, 9}));
  EXPECT_EQ(out(Conv2d{.in = 3, .out = 8, .kernel = 7, .padding = 3, .kernel_w = 1}, {{3, 9, 9}}), (Shape{8, 9, 9}));
  EXPECT_EQ(out(Conv2d{.in = 3, .out = 8, .kernel = 1, .kernel_w = 7}, {{3, 9, 9}}), (Shape{8, 9, 3}));
  EXPECT_EQ(out(Pool2d{.kernel = 3, .stride = 2}, {{8, 15, 8}}), (Shape{8, 7, 3}));
  EXPECT_EQ(out(Pool2d{.mode = Pool2d::Mode::global_average}, {{8, 7, 5}}), (Shape{8, 1, 1}));
}

TEST(LayerShape, SequencesAndJoins) {
  EXPECT_EQ(out(Embedding{1000, 16}, {{20}}), (Shape{20, 16}));
  EXPECT_EQ(out(Lstm{16, 32}, {{20, 16}}), (Shape{20, 32}));
  EXPECT_EQ(out(LstmCell{16, 32}, {{16}, {64}}), (Shape{64}));
  EXPECT_EQ(out(Attention{.width = 16, .heads = 4}, {{20, 16}}), (Shape{20, 16}));
  EXPECT_EQ(out(Add{}, {{3, 4}, {3, 4}, {3, 4}}), (Shape{3, 4}));
  EXPECT_EQ(out(Concat{.axis = 0}, {{3, 4, 4}, {5, 4, 4}}), (Shape{8, 4, 4}));
  EXPECT_EQ(out(Concat{.axis = 1}, {{3, 4}, {3, 1}}), (Shape{3, 5}));
  EXPECT_EQ(out(Flatten{}, {{8, 7, 5}}), (Shape{280}));
  EXPECT_EQ(out(CrossEntropyLoss{}, {{20, 10}}), (Shape{}));
}

TEST(LayerShape, TextLayersTakeTheirTokenIdsLast) {
  EXPECT_EQ(out(PositionEmbedding{40, 16}, {{20, 16}}), (Shape{20, 16}));
  EXPECT_EQ(out(Lstm{.in = 16, .hidden = 32, .reverse = true}, {{20, 16}, {20}}), (Shape{20, 32}));
  EXPECT_EQ(out(Attention{.width = 16, .heads = 4}, {{20, 16}, {20}}), (Shape{20, 16}));
  const CrossAttention cross{.width = 16, .memory = 8, .heads = 4};
  EXPECT_EQ(out(cross, {{20, 16}, {7, 8}}), (Shape{20, 16}));
  EXPECT_EQ(out(cross, {{20, 16}, {7, 8}, {7}}), (Shape{20, 16}));
  EXPECT_EQ(out(SequencePool{}, {{20, 16}, {20}}), (Shape{16}));
  for (const LayerKind& kind : {LayerKind(Lstm{1, 1}), LayerKind(Attention{1, 1}), LayerKind(SequencePool{})})
    EXPECT_EQ(token_input(kind), 1) << kind_name(kind);
  EXPECT_EQ(token_input(Embedding{2, 1}), 0);
  EXPECT_EQ(token_input(cross), 2);
  EXPECT_EQ(token_input(Linear{1, 1}), -1);
}

TEST(LayerShape, GroupsAndTransposedConvolutions) {
  const Conv2d grouped{.in = 4, .out = 6, .kernel = 3, .padding = 1, .groups = 2};
  EXPECT_EQ(out(grouped, {{4, 5, 7}}), (Shape{6, 5, 7}));
  EXPECT_EQ(parameter_count(layer(grouped)), 6 * 2 * 9 + 6);
  EXPECT_EQ(forward_flops(grouped, {{4, 5, 7}}), 2.0 * 6 * 5 * 7 * 2 * 9);
  const ConvNd film{.in = 4, .out = 6, .kernel = {1, 3, 2}, .stride = {1, 2, 1}, .groups = 2};
  EXPECT_EQ(out(film, {{4, 5, 7, 8}}), (Shape{6, 5, 3, 7}));
  EXPECT_EQ(forward_flops(film, {{4, 5, 7, 8}}), 2.0 * 6 * 5 * 3 * 7 * 2 * 6);
  EXPECT_NE(shape_error_of(Conv2d{.in = 4, .out = 6, .kernel = 3, .groups = 4}, {{4, 5, 7}})
                .find("4 groups do not divide 4 channels in and 6 out"),
            std::string::npos);
  EXPECT_EQ(out(ConvTranspose2d{8, 4, 2, 2}, {{8, 5, 7}}), (Shape{4, 10, 14}));
  EXPECT_EQ(out(ConvTranspose2d{8, 4, 4, 2, 1}, {{8, 5, 7}}), (Shape{4, 10, 14}));
  EXPECT_EQ(parameter_count(layer(ConvTranspose2d{8, 4, 2, 2})), 8 * 4 * 4 + 4);
  EXPECT_EQ(forward_flops(ConvTranspose2d{8, 4, 2, 2}, {{8, 5, 7}}), 2.0 * 8 * 5 * 7 * 4 * 4);
  EXPECT_NE(shape_error_of(ConvTranspose2d{8, 4, 2, 1, 3}, {{8, 5, 7}}).find("takes all of it away"),
            std::string::npos);
}

TEST(LayerShape, RotaryPositionsNeedHeadsOfAnEvenWidth) {
  EXPECT_EQ(out(Attention{.width = 8, .heads = 2, .rotary = 1e4}, {{5, 8}}), (Shape{5, 8}));
  EXPECT_NE(shape_error_of(Attention{.width = 6, .heads = 2, .rotary = 1e4}, {{5, 6}}).find("heads of an even width"),
            std::string::npos);
  EXPECT_EQ(parameter_count(layer(RmsNorm{6})), 6);
}

TEST(LayerShape, AnImageBecomesPatchesWithAClassTokenBeforeThem) {
  EXPECT_EQ(out(PatchEmbedding{3, 16, 768}, {{3, 224, 224}}), (Shape{196, 768}));
  EXPECT_EQ(out(PatchEmbedding{1, 2, 8}, {{1, 4, 6}}), (Shape{6, 8}));
  EXPECT_EQ(out(ClassToken{768}, {{196, 768}}), (Shape{197, 768}));
  EXPECT_EQ(out(SequencePool{SequencePool::Mode::first}, {{197, 768}}), (Shape{768}));
  EXPECT_EQ(out(SequencePool{}, {{197, 768}}), (Shape{768}));
  EXPECT_NE(shape_error_of(PatchEmbedding{3, 16, 768}, {{3, 224, 220}}).find("patches of 16 do not divide"),
            std::string::npos);
  EXPECT_NE(shape_error_of(PatchEmbedding{3, 16, 768}, {{1, 224, 224}}).find("expects 3 channels"), std::string::npos);
  EXPECT_NE(shape_error_of(ClassToken{8}, {{4, 9}}).find("a last dimension of 8"), std::string::npos);
  EXPECT_NE(shape_error_of(SequencePool{SequencePool::Mode::first}, {{4, 9}, {4}}).find("takes no ids"),
            std::string::npos);
}

TEST(LayerShape, ExpertsKeepTheShapeAndTakeAsManyRowsAsTheirCapacity) {
  EXPECT_EQ(out(Experts{16, 32, 8}, {{20, 16}}), (Shape{20, 16}));
  EXPECT_EQ(out(Experts{16, 32, 8}, {{16}}), (Shape{16}));
  EXPECT_EQ((Experts{16, 32, 8}.rows_of(20)), 40);
  // 1.25 x 20 x 2 / 8 = 6.25 rows; 0.7 x 20 x 2 / 8 = 3.5, of all 8 experts 32.
  const Experts roomy{.features = 16, .hidden = 32, .experts = 8, .capacity = 1.25};
  EXPECT_EQ(roomy.capacity_of(20), 7);
  EXPECT_EQ(roomy.rows_of(20), 40);
  const Experts tight{.features = 16, .hidden = 32, .experts = 8, .capacity = 0.7};
  EXPECT_EQ(tight.capacity_of(20), 4);
  EXPECT_EQ(tight.rows_of(20), 32);
  EXPECT_EQ((Experts{.features = 1, .hidden = 1, .experts = 2, .capacity = 1.1}.capacity_of(10)), 10);
  EXPECT_EQ((Experts{.features = 1, .hidden = 1, .experts = 4, .capacity = 1.1}.capacity_of(20)), 11);
  // A device that holds three of the eight: 3 / 8 of 40 and of 32 rows.
  EXPECT_EQ((Experts{.features = 16, .hidden = 32, .experts = 8, .held = 3}.rows_of(20)), 15);
  EXPECT_EQ((Experts{.features = 16, .hidden = 32, .experts = 8, .capacity = 0.7, .held = 3}.rows_of(20)), 12);
  EXPECT_EQ((Experts{.features = 16, .hidden = 32, .experts = 8, .held = 3}.rows_of(1)), 1);  // of 2, rounded up
  EXPECT_EQ(shape_error_of(Experts{16, 32, 8, 9}, {{20, 16}}),
            "layer 'l' (Experts): top_k 9 is not between 1 and its 8 experts");
  EXPECT_NE(shape_error_of(Experts{16, 32, 8}, {{20, 15}}).find("a last dimension of 16"), std::string::npos);
  EXPECT_NE(shape_error_of(Experts{16, 0, 8}, {{20, 16}}).find("hidden must be positive"), std::string::npos);
}

TEST(LayerShape, TextLayersNameWhatDoesNotFit) {
  const CrossAttention cross{.width = 16, .memory = 8, .heads = 4};
  const auto mentions = [](const std::string& text, const char* what) {
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  mentions(shape_error_of(cross, {{20, 16}, {7, 8}, {20}}), "one token id a step of [7, 8]");
  mentions(shape_error_of(cross, {{20, 16}}), "takes 2 or 3 inputs, has 1");
  mentions(shape_error_of(cross, {{20, 16}, {7, 9}}), "a last dimension of 8");
  mentions(shape_error_of(CrossAttention{16, 8, 3}, {{20, 16}, {7, 8}}), "not a multiple of 3 heads");
  mentions(shape_error_of(SequencePool{}, {{20, 16}, {19}}), "one token id a step");
  mentions(shape_error_of(PositionEmbedding{10, 16}, {{20, 16}}), "has 10 positions");
  mentions(shape_error_of(Linear{16, 1}, {{16}, {16}}), "takes 1 input, has 2");
}

TEST(LayerShape, ErrorsNameTheLayerAndWhatDoesNotFit) {
  EXPECT_EQ(shape_error_of(Linear{64, 10}, {{63}}),
            "layer 'l' (Linear): expects a last dimension of 64, the input is [63]");
  EXPECT_EQ(shape_error_of(Conv2d{3, 8, 3}, {{1, 9, 9}}),
            "layer 'l' (Conv2d): expects 3 channels, the input is [1, 9, 9]");
  EXPECT_NE(shape_error_of(Conv2d{3, 8, 5}, {{3, 4, 4}}).find("empty output"), std::string::npos);
  EXPECT_NE(shape_error_of(Conv2d{3, 8, 5}, {{48}}).find("channels, height, width"), std::string::npos);
  EXPECT_NE(shape_error_of(Attention{.width = 10, .heads = 4}, {{3, 10}}).find("multiple"), std::string::npos);
  EXPECT_NE(shape_error_of(Add{}, {{3}, {4}}).find("differ"), std::string::npos);
  EXPECT_NE(shape_error_of(Multiply{}, {{3}, {4}}).find("differ"), std::string::npos);
  EXPECT_EQ(out(Multiply{}, {{3, 4, 5}, {3, 1, 1}}), (Shape{3, 4, 5}));
  EXPECT_NE(shape_error_of(Multiply{}, {{3, 1, 1}, {3, 4, 5}}).find("differ"), std::string::npos);
  EXPECT_NE(shape_error_of(Multiply{}, {{3, 4}, {3, 1}}).find("differ"), std::string::npos);
  EXPECT_NE(shape_error_of(Multiply{}, {{3}}).find("takes 2 inputs, has 1"), std::string::npos);
  EXPECT_NE(shape_error_of(Attention{.width = 12, .heads = 6, .kv_heads = 4}, {{3, 12}}).find("4 key and value heads"),
            std::string::npos);
  EXPECT_NE(shape_error_of(Concat{.axis = 0}, {{3, 4}, {3, 5}}).find("differ"), std::string::npos);
  EXPECT_NE(shape_error_of(Concat{.axis = 2}, {{3, 4}}).find("outside"), std::string::npos);
  EXPECT_NE(shape_error_of(LstmCell{16, 32}, {{16}}).find("takes 2 inputs, has 1"), std::string::npos);
  EXPECT_NE(shape_error_of(LstmCell{16, 32}, {{16}, {32}}).find("state of [64]"), std::string::npos);
  EXPECT_NE(shape_error_of(Dropout{1.0}, {{4}}).find("probability"), std::string::npos);
  EXPECT_NE(shape_error_of(Pool2d{.kernel = 2, .stride = 2, .padding = 2}, {{1, 9, 9}}).find("half"),
            std::string::npos);
  EXPECT_NE(shape_error_of(BatchNorm{8}, {{4, 3, 3}}).find("8 features"), std::string::npos);
  EXPECT_EQ(out(GroupNorm{8, 2}, {{8, 3, 4}}), (Shape{8, 3, 4}));
  EXPECT_EQ(out(GroupNorm{8, 4}, {{8}}), (Shape{8}));
  EXPECT_NE(shape_error_of(GroupNorm{8, 3}, {{8, 3, 4}}).find("3 groups do not divide 8 features"), std::string::npos);
  EXPECT_NE(shape_error_of(GroupNorm{8, 8}, {{8}}).find("its own mean"), std::string::npos);
  EXPECT_EQ(out(BatchNorm{8}, {{8, 2, 3, 4}}), (Shape{8, 2, 3, 4}));
  EXPECT_NE(shape_error_of(BatchNorm{8}, {{8, 2, 3, 4, 5}}).find("up to three"), std::string::npos);
  EXPECT_EQ(out(Pool2d{.mode = Pool2d::Mode::global_average}, {{8, 2, 3, 4}}), (Shape{8, 1, 1, 1}));
  // floor((16 + 2 x 4 - 2 x (5 - 1) - 1) / 3) + 1 = 6; the second dimension: floor((9 - 2) / 1) + 1 = 8.
  EXPECT_EQ(out(ConvNd{3, 8, {5}, {3}, {4}, {2}}, {{3, 16}}), (Shape{8, 6}));
  EXPECT_EQ(out(ConvNd{3, 8, {5, 2}, {3, 1}, {4, 0}, {2, 1}}, {{3, 16, 9}}), (Shape{8, 6, 8}));
  EXPECT_EQ(out(ConvNd{3, 8, {1, 3, 3}}, {{3, 4, 5, 6}}), (Shape{8, 4, 3, 4}));
  EXPECT_NE(shape_error_of(ConvNd{3, 8, {}}, {{3, 16}}).find("one to three numbers, not 0"), std::string::npos);
  EXPECT_NE(shape_error_of(ConvNd{3, 8, {5}, {1, 1}}, {{3, 16}}).find("as many numbers as kernel, 1, not 2"),
            std::string::npos);
  EXPECT_NE(shape_error_of(ConvNd{3, 8, {5}}, {{3, 16, 2}}).find("channels and 1 dimension more"), std::string::npos);
  EXPECT_NE(shape_error_of(ConvNd{3, 8, {5}, {}, {}, {4}}, {{3, 16}}).find("a window of 17 does not fit into 16"),
            std::string::npos);
  EXPECT_NE(shape_error_of(ConvNd{3, 8, {5}, {}, {}, {}, true, 2}, {{3, 16}}).find("2 groups do not divide 3"),
            std::string::npos);
  EXPECT_EQ(out(Permute{{1, 2, 0}}, {{3, 4, 5}}), (Shape{4, 5, 3}));
  for (const Shape& axes : {Shape{}, {0}, {0, 0}, {0, 2}, {0, -1}, {0, 1, 2}, {0, 1, 1}})
    EXPECT_NE(shape_error_of(Permute{axes}, {{3, 4}}).find("every dimension of the input [3, 4] once"),
              std::string::npos)
        << to_text(axes);
  EXPECT_NE(shape_error_of(CrossEntropyLoss{}, {{2, 3, 4}}).find("classes"), std::string::npos);
}

TEST(LayerParameters, CountsByHand) {
  EXPECT_EQ(parameter_count(layer(Linear{64, 10})), 650);
  EXPECT_EQ(parameter_count(layer(Linear{.in = 64, .out = 10, .bias = false})), 640);
  EXPECT_EQ(parameter_count(layer(Conv2d{3, 8, 3})), 8 * 27 + 8);
  EXPECT_EQ(parameter_count(layer(Conv2d{.in = 3, .out = 8, .kernel = 1, .kernel_w = 7})), 8 * 3 * 7 + 8);
  EXPECT_EQ(parameter_count(layer(ConvNd{.in = 4, .out = 8, .kernel = {3, 1, 2}, .groups = 2})), 8 * 2 * 6 + 8);
  EXPECT_EQ(parameter_count(layer(BatchNorm{8})), 16);
  EXPECT_EQ(parameter_count(layer(GroupNorm{8, 2})), 16);
  EXPECT_EQ(parameter_count(layer(LayerNorm{8})), 16);
  EXPECT_EQ(parameter_count(layer(Embedding{100, 16})), 1600);
  EXPECT_EQ(parameter_count(layer(Lstm{16, 32})), 128 * 16 + 128 * 32 + 2 * 128);
  EXPECT_EQ(parameter_count(layer(LstmCell{16, 32})), 128 * 16 + 128 * 32 + 2 * 128);
  EXPECT_EQ(parameter_count(layer(Attention{.width = 16, .heads = 4})), 4 * 16 * 16 + 4 * 16);
  // Llama 3 8B: 32 query heads of 128, 8 key and value heads, no bias.
  EXPECT_EQ(parameter_count(
                layer(Attention{.width = 4096, .heads = 32, .kv_heads = 8, .qkv_bias = false, .proj_bias = false})),
            4096 * (4096 + 2 * 1024) + 4096 * 4096);
  EXPECT_EQ(parameter_count(layer(Attention{.width = 16, .heads = 4, .kv_heads = 1, .proj_bias = false})),
            16 * (16 + 8) + (16 + 8) + 16 * 16);
  EXPECT_EQ(parameter_count(layer(CrossAttention{.width = 16, .memory = 8, .heads = 4, .bias = false})),
            16 * 16 + 32 * 8 + 16 * 16);
  EXPECT_EQ(parameter_count(layer(CrossAttention{.width = 16, .memory = 8, .heads = 4})),
            (16 * 16 + 16) + (32 * 8 + 32) + (16 * 16 + 16));
  // Mixtral 8x7B: 45.1 billion of its 46.7 billion parameters are experts of 32 such layers.
  EXPECT_EQ(parameter_count(layer(Experts{4096, 14336, 8})), 8 * 3 * 4096 * 14336 + 8 * 4096);
  EXPECT_EQ(parameter_count(layer(Experts{.features = 16, .hidden = 32, .experts = 5, .gated = false})),
            5 * 2 * 16 * 32 + 5 * 16);
  EXPECT_EQ(parameter_count(layer(PositionEmbedding{20, 16})), 320);
  EXPECT_EQ(parameter_count(layer(SequencePool{})), 0);
  EXPECT_EQ(parameter_count(layer(Activation{})), 0);
}

TEST(LayerParameters, InitialisationHasTorchsBounds) {
  const auto conv = parameters(layer(Conv2d{4, 8, 3}));
  ASSERT_EQ(conv.size(), 2u);
  EXPECT_EQ(conv[0].shape, (Shape{8, 4, 3, 3}));
  EXPECT_NEAR(conv[0].bound, 1 / 6.0, 1e-15);  // 1 / sqrt(36)
  EXPECT_DOUBLE_EQ(conv[1].bound, 1 / 6.0);
  const auto lstm = parameters(layer(Lstm{16, 25}));
  ASSERT_EQ(lstm.size(), 4u);
  EXPECT_EQ(lstm[1].name, "weight_hh");
  EXPECT_EQ(lstm[1].shape, (Shape{100, 25}));
  EXPECT_DOUBLE_EQ(lstm[0].bound, 0.2);
  EXPECT_EQ(parameters(layer(BatchNorm{8}))[0].init, ParameterSpec::Init::ones);
  EXPECT_EQ(parameters(layer(Embedding{5, 2}))[0].init, ParameterSpec::Init::normal);
}

TEST(LayerFlops, MultiplyAddsCountTwice) {
  EXPECT_EQ(forward_flops(Linear{64, 10}, {{64}}), 1280);
  EXPECT_EQ(forward_flops(Linear{64, 10}, {{20, 64}}), 25600);
  // 8 maps of 16 x 16, each element 27 multiply-adds.
  EXPECT_EQ(forward_flops(Conv2d{.in = 3, .out = 8, .kernel = 3, .stride = 2, .padding = 1}, {{3, 32, 32}}),
            2.0 * 8 * 256 * 27);
  EXPECT_EQ(forward_flops(Conv2d{.in = 3, .out = 8, .kernel = 1, .kernel_w = 7}, {{3, 9, 9}}), 2.0 * 8 * 9 * 3 * 3 * 7);
  EXPECT_EQ(forward_flops(Lstm{2, 3}, {{5, 2}}), 5 * (2.0 * 12 * 5 + 27));
  // Projections 4 * 2 * 3 * 8 * 8, scores and values 2 * 2 * 3 * 3 * 8.
  EXPECT_EQ(forward_flops(Attention{.width = 8, .heads = 2}, {{3, 8}}), 1536 + 288);
  // Causal: 6 of the 9 pairs.
  EXPECT_EQ(forward_flops(Attention{.width = 8, .heads = 2, .causal = true}, {{3, 8}}), 1536 + 192);
  // One key and value head of two: projections 2 * 3 * 8 * (8 + 4 + 4 + 8), scores and values as with two.
  EXPECT_EQ(forward_flops(Attention{.width = 8, .heads = 2, .kv_heads = 1}, {{3, 8}}), 1152 + 288);
  EXPECT_EQ(forward_flops(Multiply{}, {{3, 8}, {3, 8}}), 24);
}

TEST(LayerFlops, ExpertsCountTheRouterAndTheChosenExpertsOfEveryToken) {
  // 3 tokens of 8, 4 experts of 10, two of them a token: router 2 * 3 * 8 * 4, 6 rows of three products 2 * 8 * 10; f
  // and the gate 2 * 10 a row, its weighted sum 2 * 8, the softmax 3 a choice. Backward 2 + 3 + 4 times 10 a row, its
  // sum 8, and 4 a choice.
  const std::vector<Shape> in{{3, 8}};
  const LayerFlops gated = flops(layer(Experts{8, 10, 4}), in);
  EXPECT_EQ(gated.forward, Flops(192 + 6 * 480 + 6 * (20 + 16) + 18));
  EXPECT_EQ(gated.input_gradient, Flops(192 + 6 * 480 + 6 * (90 + 8) + 24));
  EXPECT_EQ(gated.weight_gradient, Flops(192 + 6 * 480));
  // Two products; f 10 a row; backward 1 + 1 + 4 times 10. At half of the capacity one row for each of the 4 experts.
  const LayerFlops plain =
      flops(layer(Experts{.features = 8, .hidden = 10, .experts = 4, .gated = false, .capacity = 0.5}), in);
  EXPECT_EQ(plain.forward, Flops(192 + 4 * 320 + 4 * (10 + 16) + 18));
  EXPECT_EQ(plain.input_gradient, Flops(192 + 4 * 320 + 4 * (60 + 8) + 24));
  EXPECT_EQ(plain.weight_gradient, Flops(192 + 4 * 320));
}

TEST(LayerFlops, CrossAttentionCountsBothSequences) {
  // Queries and output 2 * 2 * 3 * 8 * 8, keys and values 2 * 2 * 5 * 4 * 8, scores and values 2 * 2 * 3 * 5 * 8;
  // backward five such products.
  const std::vector<Shape> in{{3, 8}, {5, 4}};
  const LayerFlops work = flops(layer(CrossAttention{.width = 8, .memory = 4, .heads = 2}), in);
  EXPECT_EQ(work.forward, Flops(768 + 640 + 480));
  EXPECT_EQ(work.input_gradient, Flops(768 + 640 + 1200));
  EXPECT_EQ(work.weight_gradient, Flops(768 + 640));
}

TEST(LayerFlops, WeightGradientOfAProductCostsAsMuchAsItsForward) {
  const std::vector<Shape> in{{20, 64}};
  const LayerFlops linear = flops(layer(Linear{64, 10}), in);
  EXPECT_EQ(linear.input_gradient, linear.forward);
  EXPECT_EQ(linear.weight_gradient, linear.forward);
  EXPECT_EQ(flops(layer(Activation{}), in).weight_gradient, Flops(0));
  const std::vector<Shape> ids{{20}};
  EXPECT_EQ(flops(layer(Embedding{100, 16}), ids).forward, Flops(0));
  EXPECT_EQ(flops(layer(Embedding{100, 16}), ids).weight_gradient, Flops(320));
}

TEST(LayerStash, KeepsWhatTheBackwardFormulasNeed) {
  const std::vector<Shape> image{{8, 6, 6}};
  const StashSpec conv = stash(layer(Conv2d{8, 4, 3}), image);
  EXPECT_TRUE(conv.keeps_input && conv.input_until_weight_gradient && conv.output_gradient_until_weight_gradient);
  EXPECT_EQ(conv.extra, Bytes(0));
  const StashSpec relu = stash(layer(Activation{}), image);
  EXPECT_TRUE(relu.keeps_output && relu.output_is_input && !relu.keeps_input);
  const StashSpec gelu = stash(layer(Activation{Activation::Kind::gelu}), image);
  EXPECT_TRUE(gelu.keeps_input && !gelu.keeps_output && !gelu.output_is_input);
  EXPECT_EQ(stash(layer(Pool2d{}), image).extra, Bytes(8 * 8 * 3 * 3));
  EXPECT_EQ(stash(layer(BatchNorm{8}), image).extra_per_microbatch, Bytes(64));
  EXPECT_EQ(stash(layer(Dropout{}), image).extra, Bytes(288));
}

TEST(LayerStash, OwnTensorsScaleWithTheElement) {
  const std::vector<Shape> words{{5, 8}};
  EXPECT_EQ(stash(layer(LayerNorm{8}), words).extra, Bytes(2 * 5 * 4));
  EXPECT_EQ(stash(layer(Lstm{8, 3}), words).extra, Bytes(5 * 5 * 3 * 4));
  EXPECT_EQ(stash(layer(Lstm{8, 3}), words, Bytes(8)).extra, Bytes(5 * 5 * 3 * 8));
  const StashSpec attention = stash(layer(Attention{.width = 8, .heads = 2}), words);
  EXPECT_EQ(attention.extra, Bytes(4 * (4 * 40 + 2 * 5)));
  EXPECT_EQ(attention.extra_until_weight_gradient, Bytes(4 * 4 * 40));
  const StashSpec grouped = stash(layer(Attention{.width = 8, .heads = 2, .kv_heads = 1}), words);
  EXPECT_EQ(grouped.extra, Bytes(4 * (2 * 40 + 2 * 20 + 2 * 5)));
  EXPECT_EQ(grouped.extra_until_weight_gradient, Bytes(4 * (2 * 40 + 2 * 20)));
  // 5 tokens, two choices each of 8 bytes and a p; 10 rows of two hidden vectors of 6, then of three.
  const StashSpec experts = stash(layer(Experts{8, 6, 4}), words);
  EXPECT_TRUE(experts.keeps_input && experts.input_until_weight_gradient &&
              experts.output_gradient_until_weight_gradient);
  EXPECT_EQ(experts.extra, Bytes(10 * (8 + 4) + 4 * 2 * 60));
  EXPECT_EQ(experts.extra_until_weight_gradient, Bytes(10 * (8 + 4) + 4 * 3 * 60));
  LayerSpec frozen = layer(Experts{8, 6, 4});
  frozen.frozen = true;
  EXPECT_FALSE(stash(frozen, words).keeps_input);
  EXPECT_EQ(stash(frozen, words).extra_until_weight_gradient, Bytes(0));
  const std::vector<Shape> two{{5, 8}, {3, 4}};
  const StashSpec cross = stash(layer(CrossAttention{.width = 8, .memory = 4, .heads = 2}), two);
  EXPECT_EQ(cross.extra, Bytes(4 * (2 * 40 + 2 * 24 + 2 * 5)));
  EXPECT_EQ(cross.extra_until_weight_gradient, Bytes(4 * (2 * 40 + 2 * 24)));
}

}  // namespace
}  // namespace sluice
