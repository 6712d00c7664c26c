// Transformers of pre-layer-norm blocks: x + proj(attention(LN(x))), then x +
// down(gelu(up(LN(x)))); and BERT (Devlin et al., NAACL 2019, arXiv 1810.04805), whose blocks
// normalise after each addition.
#include "workloads/models/models.h"

namespace sluice {

static void block(ChainBuilder& b, int number, std::int64_t width, std::int64_t heads,
                  std::int64_t feed_forward) {
  const std::string n = std::to_string(number);
  const int x = b.last();
  b.add("ln1_" + n, LayerNorm{width});
  const int attention =
      b.add("attention_" + n, Attention{.width = width, .heads = heads, .causal = true});
  const int middle = b.add("add1_" + n, Add{}, {x, attention});
  b.add("ln2_" + n, LayerNorm{width});
  b.add("up_" + n, Linear{width, feed_forward});
  b.add("gelu_" + n, Activation{Activation::Kind::gelu});
  const int down = b.add("down_" + n, Linear{feed_forward, width});
  b.add("add2_" + n, Add{}, {middle, down});
  b.next_block();
}

ModelGraph transformer_regression(int blocks, std::int64_t width, std::int64_t heads,
                                  std::int64_t feed_forward, std::int64_t sequence) {
  ChainBuilder b("transformer" + std::to_string(width) + "x" + std::to_string(blocks),
                 {.shape = {sequence, width}});
  for (int i = 0; i < blocks; ++i) block(b, i, width, heads, feed_forward);
  b.add("loss", MseLoss{});
  return b.finish();
}

ModelGraph gpt(const std::string& name, int layers, std::int64_t hidden, std::int64_t heads,
               std::int64_t sequence, std::int64_t vocabulary) {
  ChainBuilder b(name, {.shape = {sequence}, .is_token_ids = true});
  b.add("embedding", Embedding{vocabulary, hidden});
  b.next_block();
  for (int i = 0; i < layers; ++i) block(b, i, hidden, heads, 4 * hidden);
  b.add("final_norm", LayerNorm{hidden});
  b.add("head", Linear{hidden, vocabulary, false});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

// Tokens, positions and segments are three inputs. The pooler and the two-way classifier read every
// step, since no layer picks the first one: BERT's parameters, and 0.2 % more work.
ModelGraph bert(const std::string& name, int layers, std::int64_t hidden, std::int64_t heads,
                std::int64_t sequence, std::int64_t vocabulary) {
  const ModelInput ids{.shape = {sequence}, .is_token_ids = true};
  ChainBuilder b(name, ids);
  const int positions = b.add_input(ids), segments = b.add_input(ids);
  const int token = b.add("token_embedding", Embedding{vocabulary, hidden}, {-1});
  const int position = b.add("position_embedding", Embedding{512, hidden}, {positions});
  const int segment = b.add("segment_embedding", Embedding{2, hidden}, {segments});
  b.add("embedding", Add{}, {token, position, segment});
  b.add("embedding_norm", LayerNorm{hidden});
  b.next_block();
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    const int x = b.last();
    const int attention = b.add("attention_" + n, Attention{.width = hidden, .heads = heads});
    b.add("add1_" + n, Add{}, {x, attention});
    const int middle = b.add("ln1_" + n, LayerNorm{hidden});
    b.add("up_" + n, Linear{hidden, 4 * hidden});
    b.add("gelu_" + n, Activation{Activation::Kind::gelu});
    const int down = b.add("down_" + n, Linear{4 * hidden, hidden});
    b.add("add2_" + n, Add{}, {middle, down});
    b.add("ln2_" + n, LayerNorm{hidden});
    b.next_block();
  }
  b.add("pooler", Linear{hidden, hidden});
  b.add("pooler_tanh", Activation{Activation::Kind::tanh});
  b.add("classifier", Linear{hidden, 2});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

}  // namespace sluice
