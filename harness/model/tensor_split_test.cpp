#include "harness/model/tensor_split.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

using Rule = LayerSplit::Rule;

ModelGraph pair_model() {
  return {.name = "pair",
          .inputs = {{.shape = {2}}},
          .layers = {{"norm", LayerNorm{2}, {-1}},
                     {"up", Linear{2, 4}, {0}},
                     {"relu", Activation{}, {1}},
                     {"down", Linear{4, 2}, {2}},
                     {"loss", MseLoss{}, {3}}}};
}

TEST(TensorSplit, OfTwoLinearLayersDividesWhatIsBetweenThem) {
  const TensorModel t = split_tensors(pair_model(), 2);
  const Linear up = std::get<Linear>(t.member.layers[1].kind), down = std::get<Linear>(t.member.layers[3].kind);
  EXPECT_EQ(up.in, 2);
  EXPECT_EQ(up.out, 2);
  EXPECT_EQ(down.in, 2);
  EXPECT_EQ(down.out, 2);
  EXPECT_EQ(t.layers[0].rule, Rule::whole);
  EXPECT_EQ(t.layers[1].rule, Rule::outputs);
  EXPECT_EQ(t.layers[2].rule, Rule::outputs);
  EXPECT_EQ(t.layers[3].rule, Rule::inputs);
  EXPECT_EQ(t.layers[1].input_gradient_sums, std::vector<std::int64_t>{2});
  EXPECT_TRUE(t.layers[1].forward_sums.empty());
  EXPECT_EQ(t.layers[3].forward_sums, std::vector<std::int64_t>{2});
  EXPECT_TRUE(t.layers[3].input_gradient_sums.empty());
  EXPECT_EQ(t.layers[3].added_once, 1);
}

TEST(TensorSplit, PutsTheMembersBesideEachOther) {
  const TensorModel t = split_tensors(pair_model(), 2);
  ASSERT_EQ(t.all.layers.size(), 10u);
  EXPECT_EQ(t.all.layers[2].name, "up/0");
  EXPECT_EQ(t.all.layers[3].name, "up/1");
  EXPECT_EQ(t.all.layers[7].inputs, std::vector<int>{5});
  EXPECT_EQ(t.all.shapes()[3], (Shape{2}));
  EXPECT_EQ(t.whole_layer(7), 3);
  EXPECT_EQ(t.member_of(7), 1);
}

TEST(TensorSplit, OfOneDeviceHasEveryParameterOnce) {
  const TensorModel t = split_tensors(pair_model(), 1);
  EXPECT_EQ(parameter_count(t.member), parameter_count(pair_model()));
}

// The gradient of the model's input is nobody's.
TEST(TensorSplit, SumsNoGradientThatNobodyReads) {
  ModelGraph model = pair_model();
  model.layers.erase(model.layers.begin());
  for (LayerSpec& layer : model.layers)
    for (int& input : layer.inputs) --input;
  model.layers[0].inputs = {-1};
  EXPECT_TRUE(split_tensors(model, 2).layers[0].input_gradient_sums.empty());
}

TEST(TensorSplit, GivesEveryDeviceAPartOfTheExpertsAndTheWholeRouter) {
  const ModelGraph model{
      .name = "experts",
      .inputs = {{.shape = {6, 8}}},
      .layers = {{"norm", LayerNorm{8}, {-1}}, {"experts", Experts{8, 12, 4}, {0}}, {"loss", MseLoss{}, {1}}}};
  const TensorModel t = split_tensors(model, 2);
  EXPECT_EQ(t.layers[1].rule, Rule::experts);
  std::vector<int> dimensions;
  for (const ParameterPart& part : t.layers[1].parameters) dimensions.push_back(part.dimension);
  EXPECT_EQ(dimensions, (std::vector<int>{-1, 0, 0, 0}));
  EXPECT_EQ(parameter_count(t.member.layers[1]), 4 * 8 + 2 * 3 * 8 * 12);
  EXPECT_EQ(std::get<Experts>(t.member.layers[1].kind).rows_of(6), 6);  // of 12 pairs of a token and an expert
  EXPECT_EQ(t.layers[1].forward_sums, std::vector<std::int64_t>{48});
  EXPECT_EQ(t.layers[1].input_gradient_sums, (std::vector<std::int64_t>{12, 48}));
  try {
    split_tensors(model, 3);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("4 experts cannot be divided among 3 devices"), std::string::npos);
  }
}

// Two pairs: convolutions with a norm, an activation and a pool between them, and a convolution with a linear layer
// behind a flattening.
ModelGraph convolutions(std::int64_t channels) {
  return {.name = "convolutions",
          .inputs = {{.shape = {3, 8, 8}}},
          .layers = {{"first", Conv2d{.in = 3, .out = channels, .kernel = 3, .padding = 1}, {-1}},
                     {"norm", BatchNorm{channels}, {0}},
                     {"relu", Activation{}, {1}},
                     {"pool", Pool2d{}, {2}},
                     {"second", Conv2d{.in = channels, .out = 6, .kernel = 3, .padding = 1, .bias = false}, {3}},
                     {"whole_norm", BatchNorm{6}, {4}},
                     {"third", Conv2d{.in = 6, .out = 4, .kernel = 1}, {5}},
                     {"flat", Flatten{}, {6}},
                     {"drop", Dropout{0.5}, {7}},
                     {"linear", Linear{64, 4}, {8}},
                     {"loss", CrossEntropyLoss{}, {9}}}};
}

TEST(TensorSplit, OfTwoConvolutionsDividesTheChannelsBetweenThem) {
  const TensorModel t = split_tensors(convolutions(8), 2);
  std::vector<Rule> rules;
  for (const LayerSplit& split : t.layers) rules.push_back(split.rule);
  EXPECT_EQ(rules, (std::vector{Rule::outputs, Rule::outputs, Rule::outputs, Rule::outputs, Rule::inputs, Rule::whole,
                                Rule::outputs, Rule::outputs, Rule::outputs, Rule::inputs, Rule::whole}));
  EXPECT_EQ(std::get<Conv2d>(t.member.layers[0].kind).out, 4);
  EXPECT_EQ(std::get<BatchNorm>(t.member.layers[1].kind).features, 4);
  EXPECT_EQ(std::get<Conv2d>(t.member.layers[4].kind).in, 4);
  EXPECT_EQ(std::get<Conv2d>(t.member.layers[4].kind).out, 6);
  EXPECT_EQ(std::get<Linear>(t.member.layers[9].kind).in, 32);
  EXPECT_EQ(t.member.shapes()[9], (Shape{4}));
  for (const int l : {0, 1, 6})
    for (const ParameterPart& part : t.layers[l].parameters) EXPECT_EQ(part.dimension, 0);
  EXPECT_EQ(t.layers[4].parameters[0].dimension, 1);
  EXPECT_EQ(t.layers[4].added_once, -1);  // it has no bias
  EXPECT_EQ(t.layers[9].added_once, 1);
  EXPECT_TRUE(t.layers[0].input_gradient_sums.empty());  // of the model's input
  EXPECT_EQ(t.layers[4].forward_sums, std::vector<std::int64_t>{6 * 4 * 4});
  EXPECT_EQ(t.layers[6].input_gradient_sums, std::vector<std::int64_t>{6 * 4 * 4});
  EXPECT_EQ(t.layers[9].forward_sums, std::vector<std::int64_t>{4});
}

TEST(TensorSplit, LeavesConvolutionsWholeWhoseChannelsAreNotDivided) {
  const TensorModel t = split_tensors(convolutions(9), 2);
  for (const int l : {0, 1, 2, 3}) EXPECT_EQ(t.layers[l].rule, Rule::whole);
  for (const int l : {4, 5}) EXPECT_EQ(t.layers[l].rule, Rule::outputs);  // the next two are a pair then
  EXPECT_EQ(t.layers[6].rule, Rule::inputs);
}

TEST(TensorSplit, LeavesAConvolutionInGroupsWhole) {
  ModelGraph model = convolutions(8);
  std::get<Conv2d>(model.layers[4].kind).groups = 2;
  EXPECT_EQ(split_tensors(model, 2).layers[0].rule, Rule::whole);
}

// A mask over channels would be drawn by the last dimension, which is not the divided one.
TEST(TensorSplit, LeavesConvolutionsWithDropoutOfImagesBetweenThemWhole) {
  ModelGraph model = convolutions(8);
  model.layers[2].kind = Dropout{0.5};
  const TensorModel t = split_tensors(model, 2);
  for (const int l : {0, 1, 2, 3}) EXPECT_EQ(t.layers[l].rule, Rule::whole);
}

ModelGraph classifier(std::int64_t rows, std::int64_t heads, std::int64_t classes) {
  return {.name = "classifier",
          .inputs = {{.shape = {3}, .is_token_ids = true}},
          .layers = {{"table", Embedding{rows, 12}, {-1}},
                     {"attention", Attention{.width = 12, .heads = heads}, {0}},
                     {"norm", LayerNorm{12}, {1}},
                     {"head", Linear{12, classes, false}, {2}},
                     {"loss", CrossEntropyLoss{}, {3}}}};
}

TEST(TensorSplit, DividesHeadsRowsAndClasses) {
  const TensorModel t = split_tensors(classifier(10, 4, 6), 2);
  EXPECT_EQ(std::get<Embedding>(t.member.layers[0].kind).vocabulary, 5);
  const Attention own = std::get<Attention>(t.member.layers[1].kind);
  EXPECT_EQ(own.heads, 2);
  EXPECT_EQ(own.inner, 6);
  EXPECT_EQ(own.width, 12);
  // qkv [18, 12] and its bias, proj [12, 6] and its bias.
  EXPECT_EQ(parameter_count(t.member.layers[1]), 18 * 12 + 18 + 12 * 6 + 12);
  EXPECT_EQ(std::get<Linear>(t.member.layers[3].kind).out, 3);
  EXPECT_EQ(t.layers[4].rule, Rule::classes);
  EXPECT_EQ(t.layers[4].forward_sums, std::vector<std::int64_t>{3 * 3});  // 3 positions: two members, and the target
}

TEST(TensorSplit, DividesKeyAndValueHeadsWithTheirQueries) {
  ModelGraph model = classifier(10, 4, 6);
  model.layers[1].kind = Attention{.width = 12, .heads = 4, .kv_heads = 2, .qkv_bias = false, .proj_bias = false};
  const TensorModel t = split_tensors(model, 2);
  const Attention own = std::get<Attention>(t.member.layers[1].kind);
  EXPECT_EQ(own.heads, 2);
  EXPECT_EQ(own.kv_heads, 1);
  // qkv [6 + 3 + 3, 12] and proj [12, 6]: half of 24 rows in blocks of 12, 6 and 6.
  EXPECT_EQ(parameter_count(t.member.layers[1]), 12 * 12 + 12 * 6);
  EXPECT_EQ(t.layers[1].parameters[0].blocks, (std::vector<std::int64_t>{2, 1, 1}));
  EXPECT_EQ(t.layers[1].added_once, -1);
  EXPECT_NE(error_of([&] { split_tensors(model, 4); }).find("rows"), std::string::npos);
}

// x + down(silu(gate(x)) up(x)): both that are multiplied have a part of their outputs, and down the same inputs.
TEST(TensorSplit, DividesBothFactorsOfAGate) {
  const ModelGraph model = {.name = "gated",
                            .inputs = {{.shape = {3, 8}}},
                            .layers = {{"norm", RmsNorm{8}, {-1}},
                                       {"gate", Linear{8, 12, false}, {0}},
                                       {"silu", Activation{Activation::Kind::silu}, {1}},
                                       {"up", Linear{8, 12, false}, {0}},
                                       {"gated", Multiply{}, {2, 3}},
                                       {"down", Linear{12, 8, false}, {4}},
                                       {"sum", Add{}, {-1, 5}},
                                       {"loss", MseLoss{}, {6}}}};
  const TensorModel t = split_tensors(model, 2);
  for (const int l : {1, 2, 3, 4}) EXPECT_EQ(t.layers[l].rule, Rule::outputs) << l;
  EXPECT_EQ(t.layers[5].rule, Rule::inputs);
  for (const int l : {1, 3}) EXPECT_EQ(std::get<Linear>(t.member.layers[l].kind).out, 6) << l;
  EXPECT_EQ(std::get<Linear>(t.member.layers[5].kind).in, 6);
  for (const int l : {0, 6, 7}) EXPECT_EQ(t.layers[l].rule, Rule::whole) << l;

  ModelGraph mixed = model;  // a norm over all outputs stands between: nothing can be divided
  mixed.layers[2].kind = RmsNorm{12};
  EXPECT_NE(error_of([&] { split_tensors(mixed, 2); }).find("no layer that devices can share"), std::string::npos);
}

TEST(TensorSplit, RejectsADegreeThatDoesNotDivideWithTheNumbers) {
  const auto rejected = [](const ModelGraph& model, int degree, const std::string& text) {
    const std::string error = error_of([&] { split_tensors(model, degree); });
    EXPECT_NE(error.find(text), std::string::npos) << error;
  };
  rejected(classifier(10, 4, 6), 4, "layer 'table': 10 rows cannot be divided among 4 devices");
  rejected(classifier(12, 4, 6), 3, "layer 'attention': 4 heads cannot be divided among 3 devices");
  rejected(classifier(12, 4, 6), 4, "layer 'head': 6 classes cannot be divided among 4 devices");
  ModelGraph norms = pair_model();
  norms.layers = {{"norm", LayerNorm{2}, {-1}}, {"loss", MseLoss{}, {0}}};
  rejected(norms, 2, "model 'pair': has no layer that devices can share");
  rejected(pair_model(), 3, "layer 'up': 4 outputs cannot be divided among 3 devices");
}

}  // namespace
}  // namespace sluice
