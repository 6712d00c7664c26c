// The model families, as LayerSpec graphs. One file a family.
#pragma once

#include <string>
#include <vector>

#include "harness/core/model.h"

namespace sluice {

// Adds layers one after another; each reads the one before unless told otherwise.
class ChainBuilder {
 public:
  explicit ChainBuilder(std::string name, ModelInput input);
  ChainBuilder(std::string name, ModelInput first, ModelInput second);
  int add(const std::string& name, LayerKind kind);  // reads the last layer
  int add(const std::string& name, LayerKind kind, std::vector<int> inputs);
  void next_block() {
    ++block_;
  }  // layers of one block share a generator for their initial weights
  int last() const { return static_cast<int>(model_.layers.size()) - 1; }
  ModelGraph finish();

 private:
  ModelGraph model_;
  int block_ = 0;
};

ModelGraph mlp_classifier(const std::vector<std::int64_t>& widths,
                          Shape image);  // Flatten, Linear + ReLU ..., cross entropy
ModelGraph mlp_regression(std::int64_t width, int layers);  // the peers' MLP: MSE
ModelGraph small_cnn(Shape image, int classes);
ModelGraph deep_cnn(Shape image, int classes);
ModelGraph vgg16(bool dropout);
ModelGraph transformer_regression(int blocks, std::int64_t width, std::int64_t heads,
                                  std::int64_t feed_forward, std::int64_t sequence);
ModelGraph gpt(const std::string& name, int layers, std::int64_t hidden, std::int64_t heads,
               std::int64_t sequence, std::int64_t vocabulary);

// Text to one of `classes`: [length] token ids, 0 is padding.
struct TextClassifier {
  std::int64_t vocabulary, length;
  int classes;
  int blocks;
  std::int64_t width;
};
ModelGraph residual_lstm(const std::string& name, const TextClassifier& sizes);
ModelGraph transformer_classifier(const std::string& name, const TextClassifier& sizes,
                                  std::int64_t heads, std::int64_t feed_forward);

// Text to text: inputs are the source's ids [source_length] and what the decoder has so far
// [target_length], both 0 at padding; predicts every next token.
struct Translator {
  std::int64_t vocabulary, source_length, target_length;
  int layers;  // of the encoder, and of the decoder
  std::int64_t width;
};
ModelGraph gnmt(const std::string& name, const Translator& sizes);
ModelGraph transformer_translator(const std::string& name, const Translator& sizes,
                                  std::int64_t heads, std::int64_t feed_forward);

}  // namespace sluice
