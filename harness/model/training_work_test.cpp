// Tokens and FLOPs of a sample, by hand.
#include "harness/model/training_work.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

ModelGraph language_model() {
  ModelGraph model{.name = "words", .inputs = {{Shape{8}, true}}};
  model.layers = {{"words", Embedding{100, 4}, {-1}},
                  {"attention", Attention{.width = 4, .heads = 2, .causal = true}, {0}},
                  {"norm", LayerNorm{4}, {1}},
                  {"head", Linear{4, 100}, {2}},
                  {"loss", CrossEntropyLoss{}, {3}}};
  return model;
}

TEST(TrainingWork, FlopsOfALanguageModelAreThoseOfItsProductsAndWholeScoreMatrices) {
  // N = 4 x 4 x 4 of the projections and 4 x 100 of the head = 464: 8 (6 x 464 + 12 x 1 x 4 x 8).
  EXPECT_DOUBLE_EQ(model_flop_per_sample(language_model()).value, 8 * (6 * 464 + 12 * 4 * 8));
  EXPECT_DOUBLE_EQ(model_flop_per_sample(language_model(), true).value, 8 * (2 * 464 + 4 * 4 * 8));
}

TEST(TrainingWork, FlopsOfAConvolutionAreOfEveryOutputAndWindow) {
  ModelGraph model{.name = "images", .inputs = {{Shape{3, 8, 8}, false}}};
  model.layers = {{"conv", Conv2d{.in = 3, .out = 5, .kernel = 3, .padding = 1}, {-1}},
                  {"relu", Activation{}, {0}},
                  {"flat", Flatten{}, {1}},
                  {"head", Linear{320, 10}, {2}},
                  {"loss", CrossEntropyLoss{}, {3}}};
  EXPECT_DOUBLE_EQ(model_flop_per_sample(model).value, 3 * (2 * 5 * 64 * 3 * 9 + 2 * 320 * 10));
  EXPECT_EQ(tokens_per_sample(model), std::nullopt);
}

TEST(TrainingWork, TokensAreThePositionsThatTheLossPredicts) { EXPECT_EQ(tokens_per_sample(language_model()), 8); }

TEST(TrainingWork, TokensOfAClassifierAreThoseThatItReads) {
  ModelGraph model{.name = "reviews", .inputs = {{Shape{8}, true}}};
  model.layers = {{"words", Embedding{100, 4}, {-1}},
                  {"attention", Attention{.width = 4, .heads = 2}, {0}},
                  {"flat", Flatten{}, {1}},
                  {"head", Linear{32, 2}, {2}},
                  {"loss", CrossEntropyLoss{}, {3}}};
  EXPECT_EQ(tokens_per_sample(model), 8);
  model.layers[1].kind = LayerNorm{4};  // ids of a table of features are no tokens
  EXPECT_EQ(tokens_per_sample(model), std::nullopt);
}

}  // namespace
}  // namespace sluice
