// Recurrent networks over text: the residual LSTM of SpecTrain's sentiment task, and the translation model that the
// pipeline papers call GNMT.
#include "workloads/models/models.h"

namespace sluice {

// As in SpecTrain's published code (ntueclab/SpecTrain-PyTorch, models/residual_lstm): a block is an LSTM and a
// projection, added to the block's input; the mean over the tokens is classified. There the mean goes over padding too;
// here only over the real tokens.
ModelGraph residual_lstm(const std::string& name, const TextClassifier& sizes) {
  constexpr int kIds = -1;
  ChainBuilder b(name, {.shape = {sizes.length}, .is_token_ids = true});
  b.add("embedding", Embedding{sizes.vocabulary, sizes.width});
  b.next_block();
  for (int i = 0; i < sizes.blocks; ++i) {
    const std::string n = std::to_string(i);
    const int x = b.last();
    b.add("lstm_" + n, Lstm{sizes.width, sizes.width});
    const int projected = b.add("projection_" + n, Linear{sizes.width, sizes.width});
    b.add("add_" + n, Add{}, {x, projected});
    b.next_block();
  }
  b.add("mean", SequencePool{}, {b.last(), kIds});
  b.add("classifier", Linear{sizes.width, sizes.classes});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

// Wu et al. 2016 (arXiv 1609.08144) in the form that PipeDream trains (msr-fiddle/pipedream, seq2seq/models; after
// NVIDIA's GNMT v2): a bidirectional encoder layer, then unidirectional ones, from the third on with residual
// connections; the output of the first decoder layer attends to the encoder's, and what it finds there is concatenated
// with the input of every later decoder layer. Attention here is the multiplicative kind with projections (one head),
// there the additive; no dropout.
//
//   source -- embed -- lstm ><-- + -- lstm -- lstm+ -- ... ---------.
//                                                                   v
//   target -- embed -- lstm --------------------------------- attention --.--------.
//                        `------------------------------------------ + -- lstm -- lstm+ -- head
ModelGraph gnmt(const std::string& name, const Translator& sizes) {
  constexpr int kSource = -1, kTarget = -2;
  const std::int64_t h = sizes.width;
  ChainBuilder b(name, {.shape = {sizes.source_length}, .is_token_ids = true});
  b.add_input({.shape = {sizes.target_length}, .is_token_ids = true});  // kTarget
  const int source = b.add("encoder_embedding", Embedding{sizes.vocabulary, h}, {kSource});
  b.next_block();
  const int forward = b.add("encoder_0_forward", Lstm{h, h}, {source, kSource});
  const int backward = b.add("encoder_0_backward", Lstm{.in = h, .hidden = h, .reverse = true}, {source, kSource});
  b.add("encoder_0", Concat{1}, {forward, backward});
  b.next_block();
  for (int i = 1; i < sizes.layers; ++i) {
    const std::string n = "encoder_" + std::to_string(i);
    const int x = b.last();
    const int y = b.add(i == 1 ? n : n + "_lstm", Lstm{i == 1 ? 2 * h : h, h});
    if (i > 1) b.add(n, Add{}, {x, y});
    b.next_block();
  }
  const int memory = b.last();
  b.add("decoder_embedding", Embedding{sizes.vocabulary, h}, {kTarget});
  b.next_block();
  int x = b.add("decoder_0", Lstm{h, h});
  const int context = b.add("attention", CrossAttention{.width = h, .memory = h, .heads = 1}, {x, memory, kSource});
  b.next_block();
  for (int i = 1; i < sizes.layers; ++i) {
    const std::string n = "decoder_" + std::to_string(i);
    b.add(n + "_input", Concat{1}, {x, context});
    const int y = b.add(i == 1 ? n : n + "_lstm", Lstm{2 * h, h});
    x = i == 1 ? y : b.add(n, Add{}, {x, y});
    b.next_block();
  }
  b.add("head", Linear{h, sizes.vocabulary}, {x});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

}  // namespace sluice
