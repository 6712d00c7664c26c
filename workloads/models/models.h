// The model families, as LayerSpec graphs. One file per family.
#pragma once

#include <string>
#include <vector>

#include "harness/model/model.h"

namespace sluice {

// Adds layers one after another; each reads the previous one by default.
class ChainBuilder {
 public:
  explicit ChainBuilder(std::string name, ModelInput input);
  int add_input(ModelInput input);                   // an additional one; read it by the returned index
  int add(const std::string& name, LayerKind kind);  // reads the last layer
  int add(const std::string& name, LayerKind kind, std::vector<int> inputs);
  void next_block() { ++block_; }  // layers of one block share a generator for their initial weights
  int last() const { return static_cast<int>(model_.layers.size()) - 1; }
  ModelGraph finish();

 private:
  ModelGraph model_;
  int block_ = 0;
};

// Flatten; Linear and ReLU for every width except the last; Linear; cross entropy.
ModelGraph mlp_classifier(const std::vector<std::int64_t>& widths, Shape image);
// `layers` times Linear, ReLU between them; mean squared error. Also timed on PyTorch's pipeline runtime
// (harness/peers).
ModelGraph mlp_regression(std::int64_t width, int layers);
ModelGraph small_cnn(Shape image, int classes);
ModelGraph deep_cnn(Shape image, int classes);
ModelGraph alexnet();
ModelGraph googlenet();
ModelGraph vgg16(bool dropout);
ModelGraph vgg19();
ModelGraph resnet50();
ModelGraph resnet101();
ModelGraph resnet152();
// Of `layers` normal cells in three groups and `filters` channels; 224 x 224. cell_of_layer, if not null, gets the cell
// that every layer belongs to: three of the stem, the cells, the classifier; layers + 6 together.
ModelGraph amoebanet_d(int layers, std::int64_t filters, int classes, std::vector<int>* cell_of_layer = nullptr);
// Five levels of `convolutions` (at least 2) each, `channels` (even) at the first; 192 x 192, one channel out.
// unit_of_layer, if not null, gets torchgpipe's layer, of 44 convolutions + 21, that every layer belongs to.
ModelGraph unet(int convolutions, std::int64_t channels, std::vector<int>* unit_of_layer = nullptr);
ModelGraph inception_v3();
ModelGraph transformer_regression(int blocks, std::int64_t width, std::int64_t heads, std::int64_t feed_forward,
                                  std::int64_t sequence);
// dropout: the probability after the embedding, the attention and the feed-forward part of every block; 0: none.
ModelGraph gpt(const std::string& name, int layers, std::int64_t hidden, std::int64_t heads, std::int64_t sequence,
               std::int64_t vocabulary, double dropout = 0);
ModelGraph bert(const std::string& name, int layers, std::int64_t hidden, std::int64_t heads, std::int64_t sequence,
                std::int64_t vocabulary);
// XLNet (Yang et al., NeurIPS 2019, arXiv 1906.08237) fine-tuned for two classes: attention by distances in one
// segment, the summary of the last token, which is the class token's place, and a classifier.
ModelGraph xlnet(const std::string& name, int layers, std::int64_t hidden, std::int64_t heads, std::int64_t sequence,
                 std::int64_t vocabulary);

// Models of several branches; sizes of the GraphPipe paper (appendix A.2) unless set. own_inputs: one input per branch;
// otherwise all branches read one.
struct TransformerBranches {
  int branches = 4, layers = 8;
  std::int64_t hidden = 1024, heads = 16, feed_forward = 4096, sequence = 256;
  bool head = true;  // a linear layer after the concatenation
  bool own_inputs = true;
};
ModelGraph multi_modal_transformer(const TransformerBranches& t);
struct RecommendationBranches {
  int dense = 7, dense_layers = 4, sparse = 7, top_layers = 4;
  std::int64_t width = 4096, rows = 1'000'000, embedding = 64, bag = 100;
  bool own_inputs = true;  // otherwise the embeddings also have dense ones
};
ModelGraph recommendation(const RecommendationBranches& r);
struct DrugResponseBranches {
  int branches = 7, layers = 4, trunk_layers = 4;
  std::int64_t width = 4096;
  bool own_inputs = true;
};
ModelGraph drug_response(const DrugResponseBranches& d);

// Text to one of `classes`: [length] token ids, 0 is padding.
struct TextClassifier {
  std::int64_t vocabulary, length;
  int classes;
  int blocks;
  std::int64_t width;
};
ModelGraph residual_lstm(const std::string& name, const TextClassifier& sizes);
ModelGraph transformer_classifier(const std::string& name, const TextClassifier& sizes, std::int64_t heads,
                                  std::int64_t feed_forward);

// Dosovitskiy et al., ICLR 2021 (arXiv 2010.11929): patches of an image, a class token and positions, `blocks` blocks
// with layer norms before the sublayers, and a linear head on the class token.
struct ImageTransformer {
  std::int64_t channels = 3, image = 224, patch, blocks, width, heads, feed_forward, classes = 1000;
};
ModelGraph vision_transformer(const std::string& name, const ImageTransformer& sizes);

// Text to text: inputs are the ids of the source [source_length] and of the target so far [target_length], both 0 at
// padding; every next token of the target is predicted.
struct Translator {
  std::int64_t vocabulary, source_length, target_length;
  int layers;  // of the encoder, and of the decoder
  std::int64_t width;
};
ModelGraph gnmt(const std::string& name, const Translator& sizes);
ModelGraph transformer_translator(const std::string& name, const Translator& sizes, std::int64_t heads,
                                  std::int64_t feed_forward);

}  // namespace sluice
