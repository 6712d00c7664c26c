#include "workloads/models/hugging_face.h"

#include <algorithm>
#include <map>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/model/model_json.h"
#include "workloads/models/models.h"

namespace sluice {

namespace {

constexpr std::int64_t kMaxSize = 10'000'000;
constexpr std::int64_t kMaxBlocks = 1'000;
constexpr std::int64_t kMaxDefaultSequence = 4'096;

// A config, in which null stands for a key that is not there.
class Config {
 public:
  Config(const Json& json, const std::string& file) : reader_(json, file) {}

  bool has(const std::string& key) { return reader_.has(key) && !reader_.is_null(key); }
  std::int64_t size(const std::string& key) { return reader_.integer<std::int64_t>(key, 1, kMaxSize); }
  std::int64_t size(const std::string& key, std::int64_t otherwise) { return has(key) ? size(key) : otherwise; }
  int blocks(const std::string& key) { return reader_.integer<int>(key, 1, kMaxBlocks); }
  double number(const std::string& key, double otherwise, double most) {
    return has(key) ? reader_.number(key, 0, most) : otherwise;
  }
  double dropout(const std::string& key, double otherwise) {
    return has(key) ? reader_.number(key, 0, 0.999) : otherwise;
  }
  bool flag(const std::string& key, bool otherwise) { return has(key) ? reader_.boolean(key) : otherwise; }
  std::string text(const std::string& key, const std::string& otherwise) {
    return has(key) ? reader_.text(key) : otherwise;
  }
  std::int64_t members(const std::string& key, std::int64_t otherwise) {
    return has(key) ? reader_.object(key).size() : otherwise;
  }
  LayerKind activation(const std::string& key, const std::string& otherwise) {
    using enum Activation::Kind;
    static const std::map<std::string, Activation::Kind> known = {
        {"gelu", gelu},           {"gelu_new", gelu_tanh}, {"gelu_pytorch_tanh", gelu_tanh},
        {"gelu_fast", gelu_tanh}, {"relu", relu},          {"silu", silu},
        {"swish", silu},          {"tanh", tanh}};
    const std::string name = text(key, otherwise);
    const auto found = known.find(name);
    if (found != known.end()) return Activation{found->second};
    std::vector<std::string> names;
    for (const auto& [n, kind] : known) names.push_back(n);
    reader_.fail(key, "unknown activation '" + name + "'", suggestion(name, names));
  }
  // Width of a head: given, or an equal part of `width`.
  std::int64_t head_width(const std::string& key, std::int64_t width, std::int64_t heads,
                          const std::string& heads_key) {
    if (has(key)) return size(key);
    if (width % heads != 0)
      reader_.fail(heads_key, std::to_string(heads) + " heads do not divide the width " + std::to_string(width));
    return width / heads;
  }
  [[noreturn]] void fail(const std::string& key, const std::string& what, const std::string& advice) {
    reader_.fail(key, what, advice);
  }

 private:
  JsonReader reader_;
};

// Adds layers whose names begin with those of the module that they are in.
class Block {
 public:
  Block(ChainBuilder& builder, std::string prefix) : b_(builder), prefix_(std::move(prefix)), residual_(b_.last()) {}

  int add(const std::string& name, LayerKind kind) { return b_.add(prefix_ + name, std::move(kind)); }
  int add(const std::string& name, LayerKind kind, std::vector<int> inputs) {
    return b_.add(prefix_ + name, std::move(kind), std::move(inputs));
  }
  void drop(const std::string& name, double probability) {
    if (probability > 0) add(name, Dropout{probability});
  }
  // What the next sum() adds to: the layer that comes last here.
  void keep() { residual_ = b_.last(); }
  void sum(const std::string& name) {
    add(name, Add{}, {residual_, b_.last()});
    keep();
  }
  // down(act(gate(x)) up(x))
  void gated(const std::string& gate, const std::string& act, const std::string& up, const LayerKind& activation,
             std::int64_t width, std::int64_t inner, bool bias) {
    const int x = b_.last();
    add(gate, Linear{width, inner, bias});
    const int gated = add(act, activation), other = add(up, Linear{width, inner, bias}, {x});
    add(act + ".product", Multiply{}, {gated, other});
  }

 private:
  ChainBuilder& b_;
  std::string prefix_;
  int residual_;
};

// The feed-forward part of BERT and ViT, with its residual.
void intermediate_and_output(Block& block, const LayerKind& activation, std::int64_t width, std::int64_t inner,
                             double dropout) {
  block.add("intermediate.dense", Linear{width, inner});
  block.add("intermediate.intermediate_act_fn", activation);
  block.add("output.dense", Linear{inner, width});
  block.drop("output.dropout", dropout);
  block.sum("output.sum");
}

std::int64_t sequence_of(std::optional<std::int64_t> given, std::int64_t longest, Config& c, const std::string& key) {
  if (!given) return std::min(longest, kMaxDefaultSequence);
  if (*given > longest)
    c.fail(key,
           "a sequence of " + std::to_string(*given) + " tokens is longer than the model's " + std::to_string(longest),
           "give FILE#LENGTH with at most that many");
  return *given;
}

ModelInput tokens(std::int64_t sequence) { return {.shape = {sequence}, .is_token_ids = true}; }

ModelGraph gpt2(Config& c, const std::string& name, std::optional<std::int64_t> given) {
  const std::int64_t width = c.size("n_embd"), heads = c.size("n_head"), positions = c.size("n_positions");
  const std::int64_t inner = c.size("n_inner", 4 * width), vocabulary = c.size("vocab_size");
  const double epsilon = c.number("layer_norm_epsilon", 1e-5, 1);
  const double dropout = c.dropout("resid_pdrop", 0.1), embedding_dropout = c.dropout("embd_pdrop", 0.1);
  const LayerKind activation = c.activation("activation_function", "gelu_new");
  c.head_width("head_dim", width, heads, "n_head");
  ChainBuilder b(name, tokens(sequence_of(given, positions, c, "n_positions")));
  b.add("transformer.wte", Embedding{vocabulary, width});
  b.add("transformer.wpe", PositionEmbedding{positions, width});
  if (embedding_dropout > 0) b.add("transformer.drop", Dropout{embedding_dropout});
  b.next_block();
  const int blocks = c.blocks("n_layer");
  for (int i = 0; i < blocks; ++i) {
    Block block(b, "transformer.h." + std::to_string(i) + ".");
    block.add("ln_1", LayerNorm{width, epsilon});
    block.add("attn", Attention{.width = width, .heads = heads, .causal = true});
    block.drop("attn.resid_dropout", dropout);
    block.sum("attn.sum");
    block.add("ln_2", LayerNorm{width, epsilon});
    block.add("mlp.c_fc", Linear{width, inner});
    block.add("mlp.act", activation);
    block.add("mlp.c_proj", Linear{inner, width});
    block.drop("mlp.dropout", dropout);
    block.sum("mlp.sum");
    b.next_block();
  }
  b.add("transformer.ln_f", LayerNorm{width, epsilon});
  b.add("lm_head", Linear{width, vocabulary, false});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

// Mixtral's experts. With noise or a loss of the router's own it would train otherwise than the layer does.
Experts mixtral_experts(Config& c, std::int64_t width, std::int64_t inner, const LayerKind& activation) {
  const Experts experts{.features = width,
                        .hidden = inner,
                        .experts = c.size("num_local_experts", 8),
                        .top_k = c.size("num_experts_per_tok", 2),
                        .activation = std::get<Activation>(activation).kind};
  if (experts.top_k > experts.experts)
    c.fail("num_experts_per_tok",
           std::to_string(experts.top_k) + " of " + std::to_string(experts.experts) + " experts cannot be chosen",
           "give at most num_local_experts");
  if (c.number("router_jitter_noise", 0, 1) > 0)
    c.fail("router_jitter_noise", "noise before the router is not supported", "give 0, or leave it out");
  if (c.flag("output_router_logits", false))
    c.fail("output_router_logits", "the router's auxiliary loss is not supported", "give false, or leave it out");
  return experts;
}

// Llama, Mistral, Qwen2 and Mixtral, which differ in where they have biases and in their feed-forward part.
ModelGraph llama(Config& c, const std::string& name, std::optional<std::int64_t> given, const std::string& type) {
  const std::int64_t width = c.size("hidden_size"), inner = c.size("intermediate_size");
  const std::int64_t heads = c.size("num_attention_heads"), vocabulary = c.size("vocab_size");
  const std::int64_t head = c.head_width("head_dim", width, heads, "num_attention_heads");
  const double epsilon = c.number("rms_norm_eps", 1e-6, 1);
  const bool bias = c.flag("attention_bias", false), qkv_bias = type == "qwen2",
             feed_forward_bias = c.flag("mlp_bias", false);
  const LayerKind activation = c.activation("hidden_act", "silu");
  std::optional<Experts> experts;
  if (type == "mixtral") experts = mixtral_experts(c, width, inner, activation);
  const Attention attention{.width = width,
                            .heads = heads,
                            .causal = true,
                            .rotary = c.number("rope_theta", 10'000, 1e12),
                            .inner = heads * head,
                            .kv_heads = c.size("num_key_value_heads", heads),
                            .qkv_bias = bias || qkv_bias,
                            .proj_bias = bias};
  ChainBuilder b(name, tokens(sequence_of(given, c.size("max_position_embeddings", kMaxDefaultSequence), c,
                                          "max_position_embeddings")));
  b.add("model.embed_tokens", Embedding{vocabulary, width});
  b.next_block();
  const int blocks = c.blocks("num_hidden_layers");
  for (int i = 0; i < blocks; ++i) {
    Block block(b, "model.layers." + std::to_string(i) + ".");
    block.add("input_layernorm", RmsNorm{width, epsilon});
    block.add("self_attn", attention);
    block.sum("self_attn.sum");
    block.add("post_attention_layernorm", RmsNorm{width, epsilon});
    if (experts) {
      block.add("block_sparse_moe", *experts);
      block.sum("block_sparse_moe.sum");
    } else {
      block.gated("mlp.gate_proj", "mlp.act_fn", "mlp.up_proj", activation, width, inner, feed_forward_bias);
      block.add("mlp.down_proj", Linear{inner, width, feed_forward_bias});
      block.sum("mlp.sum");
    }
    b.next_block();
  }
  b.add("model.norm", RmsNorm{width, epsilon});
  b.add("lm_head", Linear{width, vocabulary, false});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

ModelGraph masked_bert(Config& c, const std::string& name, std::optional<std::int64_t> given) {
  const std::int64_t width = c.size("hidden_size"), inner = c.size("intermediate_size");
  const std::int64_t heads = c.size("num_attention_heads"), vocabulary = c.size("vocab_size");
  const std::int64_t positions = c.size("max_position_embeddings");
  const double epsilon = c.number("layer_norm_eps", 1e-12, 1), dropout = c.dropout("hidden_dropout_prob", 0.1);
  const LayerKind activation = c.activation("hidden_act", "gelu");
  c.head_width("head_dim", width, heads, "num_attention_heads");
  const std::int64_t sequence = sequence_of(given, positions, c, "max_position_embeddings");
  ChainBuilder b(name, tokens(sequence));
  const int types = b.add_input(tokens(sequence));
  Block embeddings(b, "bert.embeddings.");
  const int word = embeddings.add("word_embeddings", Embedding{vocabulary, width});
  const int type = embeddings.add("token_type_embeddings", Embedding{c.size("type_vocab_size", 2), width}, {types});
  embeddings.add("sum", Add{}, {word, type});
  embeddings.add("position_embeddings", PositionEmbedding{positions, width});
  embeddings.add("LayerNorm", LayerNorm{width, epsilon});
  embeddings.drop("dropout", dropout);
  b.next_block();
  const int blocks = c.blocks("num_hidden_layers");
  for (int i = 0; i < blocks; ++i) {
    Block block(b, "bert.encoder.layer." + std::to_string(i) + ".");
    block.add("attention.self", Attention{.width = width, .heads = heads});
    block.drop("attention.output.dropout", dropout);
    block.sum("attention.sum");
    block.add("attention.output.LayerNorm", LayerNorm{width, epsilon});
    block.keep();
    intermediate_and_output(block, activation, width, inner, dropout);
    block.add("output.LayerNorm", LayerNorm{width, epsilon});
    b.next_block();
  }
  Block head(b, "cls.predictions.");
  head.add("transform.dense", Linear{width, width});
  head.add("transform.transform_act_fn", activation);
  head.add("transform.LayerNorm", LayerNorm{width, epsilon});
  head.add("decoder", Linear{width, vocabulary});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

// An encoder and a decoder of the same length. Their position biases, one number for each distance and head, are left
// out.
ModelGraph t5(Config& c, const std::string& name, std::optional<std::int64_t> given) {
  const std::int64_t width = c.size("d_model"), inner = c.size("d_ff"), heads = c.size("num_heads");
  const std::int64_t attended = heads * c.size("d_kv"), vocabulary = c.size("vocab_size");
  const double epsilon = c.number("layer_norm_epsilon", 1e-6, 1), dropout = c.dropout("dropout_rate", 0.1);
  std::string feed_forward = c.text("feed_forward_proj", "relu");
  const bool gated = feed_forward.starts_with("gated-");
  if (gated) feed_forward = feed_forward == "gated-gelu" ? "gelu_new" : feed_forward.substr(6);
  const LayerKind activation = c.activation("dense_act_fn", feed_forward);
  const int encoders = c.blocks("num_layers"),
            decoders = c.has("num_decoder_layers") ? c.blocks("num_decoder_layers") : encoders;
  const std::int64_t sequence = given.value_or(c.size("n_positions", 512));
  ChainBuilder b(name, tokens(sequence));
  const int target = b.add_input(tokens(sequence));
  const auto self_attention = [&](Block& block, bool causal) {
    block.add("layer.0.layer_norm", RmsNorm{width, epsilon});
    block.add("layer.0.SelfAttention", Attention{.width = width,
                                                 .heads = heads,
                                                 .causal = causal,
                                                 .inner = attended,
                                                 .qkv_bias = false,
                                                 .proj_bias = false});
    block.drop("layer.0.dropout", dropout);
    block.sum("layer.0.sum");
  };
  const auto add_feed_forward = [&](Block& block, const std::string& layer) {
    const std::string dense = layer + ".DenseReluDense.";
    block.add(layer + ".layer_norm", RmsNorm{width, epsilon});
    if (gated) {
      block.gated(dense + "wi_0", dense + "act", dense + "wi_1", activation, width, inner, false);
    } else {
      block.add(dense + "wi", Linear{width, inner, false});
      block.add(dense + "act", activation);
    }
    block.drop(dense + "dropout", dropout);
    block.add(dense + "wo", Linear{inner, width, false});
    block.drop(layer + ".dropout", dropout);
    block.sum(layer + ".sum");
  };
  b.add("encoder.embed_tokens", Embedding{vocabulary, width});
  if (dropout > 0) b.add("encoder.dropout", Dropout{dropout});
  b.next_block();
  for (int i = 0; i < encoders; ++i) {
    Block block(b, "encoder.block." + std::to_string(i) + ".");
    self_attention(block, false);
    add_feed_forward(block, "layer.1");
    b.next_block();
  }
  const int memory = b.add("encoder.final_layer_norm", RmsNorm{width, epsilon});
  b.add("decoder.embed_tokens", Embedding{vocabulary, width}, {target});
  if (dropout > 0) b.add("decoder.dropout", Dropout{dropout});
  b.next_block();
  for (int i = 0; i < decoders; ++i) {
    Block block(b, "decoder.block." + std::to_string(i) + ".");
    self_attention(block, true);
    const int norm = block.add("layer.1.layer_norm", RmsNorm{width, epsilon});
    block.add("layer.1.EncDecAttention",
              CrossAttention{.width = width, .memory = width, .heads = heads, .inner = attended, .bias = false},
              {norm, memory});
    block.drop("layer.1.dropout", dropout);
    block.sum("layer.1.sum");
    add_feed_forward(block, "layer.2");
    b.next_block();
  }
  b.add("decoder.final_layer_norm", RmsNorm{width, epsilon});
  b.add("lm_head", Linear{width, vocabulary, false});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

ModelGraph vit(Config& c, const std::string& name) {
  const std::int64_t width = c.size("hidden_size"), inner = c.size("intermediate_size");
  const std::int64_t heads = c.size("num_attention_heads"), image = c.size("image_size", 224);
  const std::int64_t patch = c.size("patch_size", 16), channels = c.size("num_channels", 3);
  const double epsilon = c.number("layer_norm_eps", 1e-12, 1), dropout = c.dropout("hidden_dropout_prob", 0);
  const std::int64_t labels = c.members("id2label", c.size("num_labels", 2));
  const LayerKind activation = c.activation("hidden_act", "gelu");
  const Attention attention{.width = width, .heads = heads, .qkv_bias = c.flag("qkv_bias", true)};
  c.head_width("head_dim", width, heads, "num_attention_heads");
  if (image % patch != 0)
    c.fail("patch_size", "patches of " + std::to_string(patch) + " do not divide an image of " + std::to_string(image),
           "give sizes that divide");
  ChainBuilder b(name, {.shape = {channels, image, image}});
  Block embeddings(b, "vit.embeddings.");
  embeddings.add("patch_embeddings", PatchEmbedding{channels, patch, width});
  embeddings.add("cls_token", ClassToken{width});
  embeddings.add("position_embeddings", PositionEmbedding{(image / patch) * (image / patch) + 1, width});
  embeddings.drop("dropout", dropout);
  b.next_block();
  const int blocks = c.blocks("num_hidden_layers");
  for (int i = 0; i < blocks; ++i) {
    Block block(b, "vit.encoder.layer." + std::to_string(i) + ".");
    block.add("layernorm_before", LayerNorm{width, epsilon});
    block.add("attention", attention);
    block.drop("attention.output.dropout", dropout);
    block.sum("attention.sum");
    block.add("layernorm_after", LayerNorm{width, epsilon});
    intermediate_and_output(block, activation, width, inner, dropout);
    b.next_block();
  }
  b.add("vit.layernorm", LayerNorm{width, epsilon});
  b.add("class", SequencePool{SequencePool::Mode::first});
  b.add("classifier", Linear{width, labels});
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

}  // namespace

bool is_hugging_face_config(const Json& json) {
  const Json* type = json.find("model_type");
  return type && type->is_string() && !json.find("schema");
}

HuggingFaceModel read_hugging_face_config(const Json& json, const std::string& file,
                                          std::optional<std::int64_t> sequence) {
  Config c(json, file);
  const std::string type = c.text("model_type", "");
  const std::string name = c.text("_name_or_path", "").empty() ? type : c.text("_name_or_path", "");
  HuggingFaceModel result;
  const auto leave_out = [&](const std::string& what) {
    result.left_out += (result.left_out.empty() ? "" : "; ") + what;
  };
  const bool is_like_llama = type == "llama" || type == "mistral" || type == "qwen2" || type == "mixtral";
  if (type == "gpt2") {
    result.model = gpt2(c, name, sequence);
  } else if (is_like_llama) {
    result.model = llama(c, name, sequence, type);
    if (c.has("sliding_window") && c.flag("use_sliding_window", true) &&
        c.size("sliding_window") < result.model.inputs[0].shape[0])
      leave_out("the sliding window of " + std::to_string(c.size("sliding_window")) +
                " tokens: attention is computed over the whole sequence");
  } else if (type == "bert") {
    result.model = masked_bert(c, name, sequence);
  } else if (type == "t5") {
    result.model = t5(c, name, sequence);
    leave_out("relative position biases");
  } else if (type == "vit") {
    if (sequence) c.fail("model_type", "a vision transformer's length follows from its image", "leave #LENGTH out");
    result.model = vit(c, name);
  } else {
    const std::vector<std::string> known = {"gpt2", "llama", "mistral", "mixtral", "qwen2", "bert", "t5", "vit"};
    c.fail("model_type", "unknown model type '" + type + "'", suggestion(type, known));
  }
  if (type != "vit" && c.flag("tie_word_embeddings", !is_like_llama))
    leave_out("tied weights: the output head has a weight of its own, which pipelines need" +
              std::string(type == "t5" ? ", and so have the two embeddings" : ""));
  // The checks of every model file: sizes that no machine has.
  const Json checked = to_json(result.model);
  result.model = model_from_json(JsonReader(checked, file + " (the model that it describes)"));
  return result;
}

}  // namespace sluice
