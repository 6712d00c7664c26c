#include "harness/model/word_slices.h"

#include <gtest/gtest.h>

#include "harness/base/expect_error.h"

namespace sluice {
namespace {

// Token ids of 6 positions, 12 words, width 8.
ModelGraph model_with_words() {
  ModelGraph model{.name = "words", .inputs = {{.shape = {6}, .is_token_ids = true}}, .layers = {}};
  model.layers = {{"table", Embedding{12, 8}, {-1}}, {"norm", LayerNorm{8}, {0}},  {"up", Linear{8, 16}, {1}},
                  {"down", Linear{16, 8}, {2}},      {"head", Linear{8, 12}, {3}}, {"loss", CrossEntropyLoss{}, {4}}};
  return model;
}

TEST(WordSlices, HeadEmbeddingAndLossHaveASliceForEveryRankAndOtherLayersStayWhole) {
  const TensorModel words = slice_words(model_with_words(), 3);
  std::vector<std::string> names;
  for (const LayerSpec& layer : words.all.layers) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"table/0", "table/1", "table/2", "table/sum", "norm", "up", "down",
                                             "head/0", "head/1", "head/2", "loss/0", "loss/1", "loss/2"}));
  EXPECT_EQ(std::get<Embedding>(words.all.layers[1].kind).vocabulary, 4);
  EXPECT_EQ(std::get<Linear>(words.all.layers[8].kind).out, 4);
  EXPECT_EQ(std::get<Linear>(words.all.layers[5].kind).out, 16);
  EXPECT_EQ(words.all.layers[3].inputs, (std::vector{0, 1, 2}));
  EXPECT_EQ(words.all.layers[4].inputs, std::vector{3});
  EXPECT_EQ(words.all.layers[9].inputs, std::vector{6});
  EXPECT_EQ(words.all.layers[12].inputs, std::vector{9});
  EXPECT_EQ(word_slices(words), (std::vector{0, 1, 2, -1, -1, -1, -1, 0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(parameter_count(words.all), parameter_count(words.whole));
  EXPECT_EQ(words.all.shapes()[8], (Shape{6, 4}));
}

// Of a sample: for each of 6 positions a logarithm of every slice's sum and the target's score; nothing else.
TEST(WordSlices, OnlyTheLossIsSummedOverTheRanks) {
  const TensorModel words = slice_words(model_with_words(), 3);
  std::vector<int> layers(words.all.layers.size());
  for (std::size_t l = 0; l < layers.size(); ++l) layers[l] = static_cast<int>(l);
  EXPECT_EQ(forward_sums(words, layers, 2), (TensorSums{3, 3 * 2 * 6 * 4 * 4}));
  EXPECT_EQ(input_gradient_sums(words, layers, 2), TensorSums{});
}

TEST(WordSlices, NameWhatCannotBeDivided) {
  EXPECT_EQ(
      error_of([] { slice_words(model_with_words(), 5); }),
      "model 'words', layer 'head': 12 classes cannot be divided among 5 ranks; choose ranks that divide them, or "
      "pad them to a multiple");
  ModelGraph model = model_with_words();
  std::get<Embedding>(model.layers[0].kind).vocabulary = 10;
  EXPECT_EQ(error_of([&] { slice_words(model, 4); }),
            "model 'words', layer 'table': 10 rows cannot be divided among 4 ranks; choose ranks that divide them, or "
            "pad them to a multiple");
  model = model_with_words();
  model.layers[4].tied_to = 0;
  EXPECT_EQ(error_of([&] { slice_words(model, 3); }),
            "model 'words': 'head' uses the weight of 'table', and words are divided in layers with weights of their "
            "own; leave tied_to out, or use another system");
  model = model_with_words();
  model.layers[4].kind = LayerNorm{8};
  EXPECT_EQ(error_of([&] { slice_words(model, 2); }),
            "model 'words': does not end with a linear layer and its cross entropy, so that there are no words to "
            "divide; use another system");
}

}  // namespace
}  // namespace sluice
