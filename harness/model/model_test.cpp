#include "harness/model/model.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "harness/base/error.h"

namespace sluice {
namespace {

// 8 -> 6 -> relu -> 4 -> loss
ModelGraph small_mlp() {
  return {.name = "mlp",
          .inputs = {{.shape = {8}}},
          .layers = {{"fc1", Linear{8, 6}, {-1}},
                     {"relu", Activation{}, {0}},
                     {"fc2", Linear{6, 4}, {1}},
                     {"loss", CrossEntropyLoss{}, {2}}}};
}

// A residual block: the output of "in" skips over "a" and "b" to "add".
ModelGraph residual() {
  return {.name = "residual",
          .inputs = {{.shape = {8}}},
          .layers = {{"in", Linear{8, 8}, {-1}},
                     {"a", Linear{8, 8}, {0}},
                     {"b", Activation{}, {1}},
                     {"add", Add{}, {0, 2}},
                     {"out", Linear{8, 3}, {3}},
                     {"loss", CrossEntropyLoss{}, {4}}}};
}

std::string model_error_of(const ModelGraph& model) {
  try {
    model.shapes();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ModelGraph, ShapesFollowTheGraph) {
  EXPECT_EQ(small_mlp().shapes(), (std::vector<Shape>{{6}, {6}, {4}, {}}));
  EXPECT_EQ(parameter_count(small_mlp()), 8 * 6 + 6 + 6 * 4 + 4);
}

TEST(ModelGraph, RejectsALayerThatReadsALaterOne) {
  ModelGraph model = residual();
  model.layers[1].inputs = {2};  // a reads b, b reads a
  EXPECT_NE(model_error_of(model).find("layer 'a': reads 'b', which does not come before it"), std::string::npos);
  model.layers[1].inputs = {1};
  EXPECT_NE(model_error_of(model).find("reads 'a', which does not come before"), std::string::npos);
}

TEST(ModelGraph, RejectsDanglingInputs) {
  ModelGraph model = small_mlp();
  model.layers[2].inputs = {9};
  EXPECT_NE(model_error_of(model).find("layer 'fc2': reads layer 9, the model has 4"), std::string::npos);
  model.layers[2].inputs = {-2};
  EXPECT_NE(model_error_of(model).find("reads model input 1, the model has 1"), std::string::npos);
}

TEST(ModelGraph, RejectsWidthsThatDoNotFit) {
  ModelGraph model = small_mlp();
  model.layers[2].kind = Linear{7, 4};
  EXPECT_EQ(model_error_of(model),
            "model 'mlp': layer 'fc2' (Linear): expects a last dimension of 7, the input is [6]");
}

TEST(ModelGraph, RejectsDuplicateNamesLossesInTheMiddleAndUnreadOutputs) {
  ModelGraph twice = small_mlp();
  twice.layers[2].name = "fc1";
  EXPECT_NE(model_error_of(twice).find("another layer has this name"), std::string::npos);

  ModelGraph early_loss = small_mlp();
  std::swap(early_loss.layers[2], early_loss.layers[3]);
  early_loss.layers[2].inputs = {1};
  EXPECT_NE(model_error_of(early_loss).find("a loss that is not the last layer"), std::string::npos);

  ModelGraph unread = residual();
  unread.layers[3].inputs = {0, 0};
  EXPECT_NE(model_error_of(unread).find("layer 'b': nobody reads its output"), std::string::npos);

  EXPECT_NE(model_error_of({.name = "nothing", .inputs = {}, .layers = {}}).find("has no layers"), std::string::npos);
}

TEST(ModelGraph, OnlyAnEmbeddingReadsTokenIds) {
  ModelGraph model{.name = "ids",
                   .inputs = {{.shape = {5}, .is_token_ids = true}},
                   .layers = {{"embed", Embedding{10, 3}, {-1}}, {"loss", CrossEntropyLoss{}, {0}}}};
  EXPECT_EQ(model.shapes()[0], (Shape{5, 3}));
  model.layers[0].kind = Linear{5, 3};
  EXPECT_NE(model_error_of(model).find("input 0 cannot be token ids; an Embedding reads them"), std::string::npos);
  model.layers = {
      {"embed", Embedding{10, 3}, {-1}}, {"attention", Attention{3, 1}, {0, -1}}, {"loss", CrossEntropyLoss{}, {1}}};
  EXPECT_NO_THROW(model.shapes());  // as the mask of padding
  model.layers[1].inputs = {-1, 0};
  EXPECT_NE(model_error_of(model).find("input 0 cannot be token ids"), std::string::npos);
  model.layers = {{"embed", Embedding{10, 3}, {-1}}, {"loss", CrossEntropyLoss{}, {0}}};
  model.inputs[0].is_token_ids = false;
  model.layers[0].kind = Embedding{10, 3};
  EXPECT_NE(model_error_of(model).find("input 0 must be token ids"), std::string::npos);
}

TEST(Interfaces, AChainSendsOneValuePerCut) {
  const std::vector<int> stage_of{0, 0, 1, 1};
  const auto cut = interfaces(small_mlp(), stage_of, 2);
  EXPECT_EQ(cut[0].receives, (std::vector<int>{-1}));
  EXPECT_EQ(cut[0].sends, (std::vector<int>{1}));
  EXPECT_EQ(cut[1].receives, (std::vector<int>{1}));
  EXPECT_TRUE(cut[1].sends.empty());
}

TEST(Interfaces, ASkipConnectionCrossesStages) {
  const std::vector<int> stage_of{0, 1, 1, 2, 2, 2};
  const auto cut = interfaces(residual(), stage_of, 3);
  EXPECT_EQ(cut[0].sends, (std::vector<int>{0}));  // once, although stages 1 and 2 read it
  EXPECT_EQ(cut[1].receives, (std::vector<int>{0}));
  EXPECT_EQ(cut[1].sends, (std::vector<int>{2}));
  EXPECT_EQ(cut[2].receives, (std::vector<int>{0, 2}));
}

TEST(Interfaces, ModelInputsComeFirstInOrder) {
  const ModelGraph model{.name = "two inputs",
                         .inputs = {{.shape = {4}}, {.shape = {4}}},
                         .layers = {{"a", Linear{4, 4}, {-2}}, {"add", Add{}, {0, -2, -1}}, {"loss", MseLoss{}, {1}}}};
  const std::vector<int> stage_of{0, 1, 1};
  const auto cut = interfaces(model, stage_of, 2);
  EXPECT_EQ(cut[0].receives, (std::vector<int>{-2}));
  EXPECT_EQ(cut[1].receives, (std::vector<int>{-1, -2, 0}));
}

TEST(Interfaces, RejectsAWrongStageTable) {
  EXPECT_THROW(interfaces(small_mlp(), std::vector<int>{0, 0}, 1), std::invalid_argument);
  EXPECT_THROW(interfaces(small_mlp(), std::vector<int>{0, 0, 0, 2}, 2), std::invalid_argument);
}

TEST(OutputBytes, TokensTakeEightBytes) {
  const ModelGraph model{.name = "ids",
                         .inputs = {{.shape = {5}, .is_token_ids = true}},
                         .layers = {{"embed", Embedding{10, 3}, {-1}}, {"loss", CrossEntropyLoss{}, {0}}}};
  const auto shapes = model.shapes();
  EXPECT_EQ(output_bytes(model, shapes, -1, 2), Bytes(80));
  EXPECT_EQ(output_bytes(model, shapes, 0, 2), Bytes(2 * 15 * 4));
  EXPECT_EQ(output_bytes(model, shapes, 0, 2, Bytes(8)), Bytes(2 * 15 * 8));
}

TEST(Overwrites, OnlyWhatNobodyElseNeeds) {
  const std::vector<int> all{0, 1, 2, 3};
  EXPECT_EQ(overwrites(small_mlp(), all), (std::vector<bool>{false, true, false, false}));
  // A received value belongs to somebody else.
  const std::vector<int> tail{1, 2, 3};
  EXPECT_EQ(overwrites(small_mlp(), tail), (std::vector<bool>{false, false, false}));
  // Two readers.
  ModelGraph model = residual();
  model.layers[3].inputs = {0, 1, 2};
  const std::vector<int> six{0, 1, 2, 3, 4, 5};
  EXPECT_FALSE(overwrites(model, six)[2]);
  // A GELU needs its input; a tanh after a ReLU would destroy what the ReLU keeps.
  model = small_mlp();
  model.layers[1].kind = Activation{Activation::Kind::gelu};
  EXPECT_FALSE(overwrites(model, all)[1]);
  model = small_mlp();
  model.layers[2] = {"tanh", Activation{Activation::Kind::tanh}, {1}};
  EXPECT_FALSE(overwrites(model, all)[2]);
}

TEST(StageStash, AReluOutputAndTheNextLinearsInputAreOneTensor) {
  const ModelGraph model = small_mlp();
  const auto shapes = model.shapes();
  const std::vector<int> all{0, 1, 2, 3};
  const StageStash stash = stage_stash(model, shapes, all, 2);
  // relu's output (2 x 6) and the loss's log-probabilities (2 x 4); the model's input is not ours.
  EXPECT_EQ(stash.forward, Bytes(4 * (12 + 8)));
  // relu's output for fc2, the gradients of fc1 (2 x 6) and fc2 (2 x 4).
  EXPECT_EQ(stash.weight, Bytes(4 * (12 + 12 + 8)));
  // Cut before fc2: the received tensor counts where it is kept, in both stages.
  const std::vector<int> head{0, 1}, tail{2, 3};
  EXPECT_EQ(stage_stash(model, shapes, head, 2).forward, Bytes(4 * 12));
  EXPECT_EQ(stage_stash(model, shapes, head, 2).weight, Bytes(4 * 12));
  EXPECT_EQ(stage_stash(model, shapes, tail, 2).forward, Bytes(4 * (12 + 8)));
  EXPECT_EQ(stage_stash(model, shapes, tail, 2).weight, Bytes(4 * (12 + 8)));
}

TEST(StageStash, GradientsPassedOnByAnAddCountOnce) {
  // Two branches of equal width, added: both weight gradients read the sum's gradient itself.
  const ModelGraph model{
      .name = "branches",
      .inputs = {{.shape = {8}}},
      .layers = {
          {"a", Linear{8, 4}, {-1}}, {"b", Linear{8, 4}, {-1}}, {"add", Add{}, {0, 1}}, {"loss", MseLoss{}, {2}}}};
  const auto shapes = model.shapes();
  const std::vector<int> all{0, 1, 2, 3};
  const StageStash stash = stage_stash(model, shapes, all, 3);
  EXPECT_EQ(stash.forward, Bytes(4 * 3 * 4));  // the loss's differences
  EXPECT_EQ(stash.weight, Bytes(4 * 3 * 4));   // one gradient
}

TEST(StageStash, AFlattenedImageIsNotCountedTwice) {
  const ModelGraph model{.name = "flat",
                         .inputs = {{.shape = {1, 4, 4}}},
                         .layers = {{"conv", Conv2d{1, 2, 3}, {-1}},
                                    {"flat", Flatten{}, {0}},
                                    {"relu", Activation{}, {1}},
                                    {"fc", Linear{8, 3}, {2}},
                                    {"loss", CrossEntropyLoss{}, {3}}}};
  const auto shapes = model.shapes();
  const std::vector<int> all{0, 1, 2, 3, 4};
  const StageStash stash = stage_stash(model, shapes, all, 1);
  EXPECT_EQ(stash.forward, Bytes(4 * (8 + 3)));
  EXPECT_EQ(stash.weight, Bytes(4 * (8 + 8 + 3)));
}

}  // namespace
}  // namespace sluice
