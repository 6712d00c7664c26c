// Transformers of pre-layer-norm blocks: x + proj(attention(LN(x))), then x + down(gelu(up(LN(x)))); and BERT (Devlin
// et al., NAACL 2019, arXiv 1810.04805), whose blocks normalise after each addition.
#include "workloads/models/models.h"

namespace sluice {

namespace {

struct BlockSizes {
  std::int64_t width, heads, feed_forward;
  double dropout = 0;  // after attention and after the feed-forward part; 0: none
};
constexpr int kNone = 0;  // no model input: those are -1, -2, ...

// x + down(gelu(up(LN(x))))
void feed_forward(ChainBuilder& b, const std::string& n, const BlockSizes& sizes, const std::string& norm,
                  const std::string& sum) {
  const int x = b.last();
  b.add(norm + n, LayerNorm{sizes.width});
  b.add("up_" + n, Linear{sizes.width, sizes.feed_forward});
  b.add("gelu_" + n, Activation{Activation::Kind::gelu});
  b.add("down_" + n, Linear{sizes.feed_forward, sizes.width});
  if (sizes.dropout > 0) b.add("dropout2_" + n, Dropout{sizes.dropout});
  b.add(sum + n, Add{}, {x, b.last()});
}

// x + proj(attention(LN(x))). ids: the model input whose padding nobody attends to.
void self_attention(ChainBuilder& b, const std::string& n, const BlockSizes& sizes, bool causal, int ids) {
  const int x = b.last();
  const int norm = b.add("ln1_" + n, LayerNorm{sizes.width});
  std::vector<int> inputs{norm};
  if (ids != kNone) inputs.push_back(ids);
  b.add("attention_" + n, Attention{.width = sizes.width, .heads = sizes.heads, .causal = causal}, inputs);
  if (sizes.dropout > 0) b.add("dropout1_" + n, Dropout{sizes.dropout});
  b.add("add1_" + n, Add{}, {x, b.last()});
}

void block(ChainBuilder& b, const std::string& n, const BlockSizes& sizes, bool causal, int ids = kNone) {
  self_attention(b, n, sizes, causal, ids);
  feed_forward(b, n, sizes, "ln2_", "add2_");
  b.next_block();
}

}  // namespace

ModelGraph transformer_regression(int blocks, std::int64_t width, std::int64_t heads, std::int64_t feed_forward,
                                  std::int64_t sequence) {
  ChainBuilder b("transformer" + std::to_string(width) + "x" + std::to_string(blocks), {.shape = {sequence, width}});
  for (int i = 0; i < blocks; ++i) block(b, std::to_string(i), {width, heads, feed_forward}, true);
  b.add("loss", MseLoss{});
  return b.finish();
}

ModelGraph gpt(const std::string& name, int layers, std::int64_t hidden, std::int64_t heads, std::int64_t sequence,
               std::int64_t vocabulary, double dropout) {
  ChainBuilder b(name, {.shape = {sequence}, .is_token_ids = true});
  b.add("embedding", Embedding{vocabulary, hidden});
  b.add("positions", PositionEmbedding{sequence, hidden});
  if (dropout > 0) b.add("dropout", Dropout{dropout});
  b.next_block();
  for (int i = 0; i < layers; ++i) block(b, std::to_string(i), {hidden, heads, 4 * hidden, dropout}, true);
  b.add("final_norm", LayerNorm{hidden});
  b.add("head", Linear{hidden, vocabulary, false});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

// A layer norm after each of the two sublayers and its residual.
static void block_with_norms_after(ChainBuilder& b, const std::string& n, const LayerKind& attention,
                                   std::int64_t hidden) {
  const int x = b.last();
  const int attended = b.add("attention_" + n, attention);
  b.add("add1_" + n, Add{}, {x, attended});
  const int middle = b.add("ln1_" + n, LayerNorm{hidden});
  b.add("up_" + n, Linear{hidden, 4 * hidden});
  b.add("gelu_" + n, Activation{Activation::Kind::gelu});
  const int down = b.add("down_" + n, Linear{4 * hidden, hidden});
  b.add("add2_" + n, Add{}, {middle, down});
  b.add("ln2_" + n, LayerNorm{hidden});
  b.next_block();
}

// Tokens, positions and segments are three inputs. The pooler and the two-way classifier read every step, since no
// layer picks the first one: BERT's parameters, and 0.2 % more work.
ModelGraph bert(const std::string& name, int layers, std::int64_t hidden, std::int64_t heads, std::int64_t sequence,
                std::int64_t vocabulary) {
  const ModelInput ids{.shape = {sequence}, .is_token_ids = true};
  ChainBuilder b(name, ids);
  const int positions = b.add_input(ids), segments = b.add_input(ids);
  const int token = b.add("token_embedding", Embedding{vocabulary, hidden}, {-1});
  const int position = b.add("position_embedding", Embedding{512, hidden}, {positions});
  const int segment = b.add("segment_embedding", Embedding{2, hidden}, {segments});
  b.add("embedding", Add{}, {token, position, segment});
  b.add("embedding_norm", LayerNorm{hidden});
  b.next_block();
  for (int i = 0; i < layers; ++i)
    block_with_norms_after(b, std::to_string(i), Attention{.width = hidden, .heads = heads}, hidden);
  b.add("pooler", Linear{hidden, hidden});
  b.add("pooler_tanh", Activation{Activation::Kind::tanh});
  b.add("classifier", Linear{hidden, 2});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

ModelGraph xlnet(const std::string& name, int layers, std::int64_t hidden, std::int64_t heads, std::int64_t sequence,
                 std::int64_t vocabulary) {
  constexpr int kIds = -1;
  ChainBuilder b(name, {.shape = {sequence}, .is_token_ids = true});
  b.add("embedding", Embedding{vocabulary, hidden});
  b.next_block();
  for (int i = 0; i < layers; ++i)
    block_with_norms_after(b, std::to_string(i), RelativeAttention{.width = hidden, .heads = heads}, hidden);
  b.add("last", SequencePool{SequencePool::Mode::last}, {b.last(), kIds});
  b.add("summary", Linear{hidden, hidden});
  b.add("summary_tanh", Activation{Activation::Kind::tanh});
  b.add("classifier", Linear{hidden, 2});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

ModelGraph transformer_classifier(const std::string& name, const TextClassifier& sizes, std::int64_t heads,
                                  std::int64_t feed_forward_width) {
  constexpr int kIds = -1;
  ChainBuilder b(name, {.shape = {sizes.length}, .is_token_ids = true});
  b.add("embedding", Embedding{sizes.vocabulary, sizes.width});
  b.add("positions", PositionEmbedding{sizes.length, sizes.width});
  b.next_block();
  for (int i = 0; i < sizes.blocks; ++i)
    block(b, std::to_string(i), {sizes.width, heads, feed_forward_width}, false, kIds);
  b.add("final_norm", LayerNorm{sizes.width});
  b.add("mean", SequencePool{}, {b.last(), kIds});
  b.add("classifier", Linear{sizes.width, sizes.classes});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

ModelGraph vision_transformer(const std::string& name, const ImageTransformer& sizes) {
  ChainBuilder b(name, {.shape = {sizes.channels, sizes.image, sizes.image}});
  const std::int64_t patches = sizes.image / sizes.patch * (sizes.image / sizes.patch);
  b.add("patches", PatchEmbedding{sizes.channels, sizes.patch, sizes.width});
  b.add("class_token", ClassToken{sizes.width});
  b.add("positions", PositionEmbedding{patches + 1, sizes.width});
  b.next_block();
  for (int i = 0; i < sizes.blocks; ++i)
    block(b, std::to_string(i), {sizes.width, sizes.heads, sizes.feed_forward}, false);
  b.add("final_norm", LayerNorm{sizes.width});
  b.add("class", SequencePool{SequencePool::Mode::first});
  b.add("head", Linear{sizes.width, sizes.classes});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

// Vaswani et al. 2017 (arXiv 1706.03762) with layer norms before the sublayers and learned positions. The encoder's
// output goes to every decoder block, the padding of the source is masked there too; in the decoder padding stands
// after everything real, which the causal mask sees to.
ModelGraph transformer_translator(const std::string& name, const Translator& sizes, std::int64_t heads,
                                  std::int64_t feed_forward_width) {
  constexpr int kSource = -1, kTarget = -2;
  const BlockSizes block_sizes{sizes.width, heads, feed_forward_width};
  ChainBuilder b(name, {.shape = {sizes.source_length}, .is_token_ids = true});
  b.add_input({.shape = {sizes.target_length}, .is_token_ids = true});  // kTarget
  b.add("encoder_embedding", Embedding{sizes.vocabulary, sizes.width}, {kSource});
  b.add("encoder_positions", PositionEmbedding{sizes.source_length, sizes.width});
  b.next_block();
  for (int i = 0; i < sizes.layers; ++i) block(b, "e" + std::to_string(i), block_sizes, false, kSource);
  const int memory = b.add("encoder_norm", LayerNorm{sizes.width});
  b.add("decoder_embedding", Embedding{sizes.vocabulary, sizes.width}, {kTarget});
  b.add("decoder_positions", PositionEmbedding{sizes.target_length, sizes.width});
  b.next_block();
  for (int i = 0; i < sizes.layers; ++i) {
    const std::string n = "d" + std::to_string(i);
    self_attention(b, n, block_sizes, true, kNone);
    const int x = b.last();
    const int norm = b.add("ln2_" + n, LayerNorm{sizes.width});
    const int found = b.add("cross_" + n, CrossAttention{.width = sizes.width, .memory = sizes.width, .heads = heads},
                            {norm, memory, kSource});
    b.add("add2_" + n, Add{}, {x, found});
    feed_forward(b, n, block_sizes, "ln3_", "add3_");
    b.next_block();
  }
  b.add("decoder_norm", LayerNorm{sizes.width});
  b.add("head", Linear{sizes.width, sizes.vocabulary, false});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

}  // namespace sluice
