#include "workloads/models/hugging_face.h"

#include <gtest/gtest.h>

#include <fstream>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "workloads/models/workload_file.h"

namespace sluice {
namespace {

// The members of the published files that describe the layers.
Json gpt2_config() {
  return Json::parse(R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
    "vocab_size": 50257, "n_inner": null, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05,
    "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1})",
                     "config.json");
}
Json llama_config() {
  return Json::parse(R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192, "rope_theta": 500000.0, "rope_scaling": null, "rms_norm_eps": 1e-05,
    "hidden_act": "silu", "attention_bias": false, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})",
                     "config.json");
}
Json mistral_config() {
  return Json::parse(R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
    "max_position_embeddings": 32768, "sliding_window": 4096, "rms_norm_eps": 1e-05, "hidden_act": "silu"})",
                     "config.json");
}
Json mixtral_config() {
  return Json::parse(R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
    "max_position_embeddings": 32768, "sliding_window": null, "rope_theta": 1000000.0, "rms_norm_eps": 1e-05,
    "hidden_act": "silu", "num_local_experts": 8, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.02,
    "output_router_logits": false, "tie_word_embeddings": false})",
                     "config.json");
}
Json qwen2_config() {
  return Json::parse(R"({"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    "max_position_embeddings": 131072, "sliding_window": 131072, "use_sliding_window": false, "rms_norm_eps": 1e-06,
    "hidden_act": "silu", "tie_word_embeddings": false})",
                     "config.json");
}
Json bert_config() {
  return Json::parse(R"({"model_type": "bert", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
    "num_attention_heads": 12, "vocab_size": 30522, "type_vocab_size": 2, "max_position_embeddings": 512,
    "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "layer_norm_eps": 1e-12})",
                     "config.json");
}
Json t5_config() {
  return Json::parse(R"({"model_type": "t5", "d_model": 512, "d_ff": 2048, "d_kv": 64, "num_heads": 8, "num_layers": 6,
    "vocab_size": 32128, "n_positions": 512, "dropout_rate": 0.1, "layer_norm_epsilon": 1e-06})",
                     "config.json");
}
Json vit_config() {
  Json json = Json::parse(R"({"model_type": "vit", "hidden_size": 768, "intermediate_size": 3072,
    "num_hidden_layers": 12, "num_attention_heads": 12, "image_size": 224, "patch_size": 16, "num_channels": 3,
    "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "qkv_bias": true, "layer_norm_eps": 1e-12})",
                          "config.json");
  for (int label = 0; label < 1000; ++label) json["id2label"][std::to_string(label)] = "label";
  return json;
}

HuggingFaceModel read(const Json& json, std::optional<std::int64_t> sequence = {}) {
  return read_hugging_face_config(json, "config.json", sequence);
}
std::int64_t parameters_of(const Json& json) { return parameter_count(read(json).model); }

// The published counts, and what a weight that is tied there has of its own here.
TEST(HuggingFace, ModelsHaveTheirPublishedParameters) {
  EXPECT_EQ(parameters_of(llama_config()), 8'030'261'248);
  EXPECT_EQ(parameters_of(mistral_config()), 7'241'732'096);
  EXPECT_EQ(parameters_of(mixtral_config()), 46'702'792'704);
  EXPECT_EQ(parameters_of(qwen2_config()), 7'615'616'512);
  EXPECT_EQ(parameters_of(gpt2_config()), 124'439'808 + 50'257 * 768);
  EXPECT_EQ(parameters_of(bert_config()), 109'514'298 + 30'522 * 768);
  EXPECT_EQ(parameters_of(vit_config()), 86'567'656);
  // Three tables for one, without the biases of 32 ranges of distances for 8 heads, of encoder and decoder.
  EXPECT_EQ(parameters_of(t5_config()), 60'506'624 + 2 * 32'128 * 512 - 2 * 32 * 8);
}

TEST(HuggingFace, LayersHaveTheNamesOfTheirModules) {
  const ModelGraph llama = read(llama_config()).model;
  std::vector<std::string> names;
  for (std::size_t l = 0; l < 12; ++l) names.push_back(llama.layers[l].name);
  EXPECT_EQ(names, (std::vector<std::string>{"model.embed_tokens", "model.layers.0.input_layernorm",
                                             "model.layers.0.self_attn", "model.layers.0.self_attn.sum",
                                             "model.layers.0.post_attention_layernorm", "model.layers.0.mlp.gate_proj",
                                             "model.layers.0.mlp.act_fn", "model.layers.0.mlp.up_proj",
                                             "model.layers.0.mlp.act_fn.product", "model.layers.0.mlp.down_proj",
                                             "model.layers.0.mlp.sum", "model.layers.1.input_layernorm"}));
  EXPECT_EQ(llama.layers[7].inputs, std::vector<int>{4});
  EXPECT_EQ(llama.layers[8].inputs, (std::vector<int>{6, 7}));
  EXPECT_EQ(llama.layers[10].inputs, (std::vector<int>{3, 9}));
  EXPECT_EQ(std::get<Attention>(llama.layers[2].kind).kv_heads, 8);
}

TEST(HuggingFace, MixtralHasExpertsForAFeedForwardPart) {
  const ModelGraph mixtral = read(mixtral_config()).model;
  EXPECT_EQ(mixtral.layers[5].name, "model.layers.0.block_sparse_moe");
  const auto& experts = std::get<Experts>(mixtral.layers[5].kind);
  EXPECT_EQ(experts.experts, 8);
  EXPECT_EQ(experts.top_k, 2);
  EXPECT_EQ(experts.hidden, 14'336);
  EXPECT_TRUE(experts.gated);
  EXPECT_EQ(experts.capacity, 0);
  EXPECT_EQ(mixtral.layers[6].inputs, (std::vector<int>{3, 5}));
  EXPECT_EQ(read(mixtral_config()).left_out, "");
}

// 2 P t for the products and the attention over pairs: Llama 3 8B on 4,096 tokens without the embedding's table.
TEST(HuggingFace, WorkIsThatOfTheProducts) {
  const ModelGraph model = read(llama_config(), 4'096).model;
  const std::vector<Shape> shapes = model.shapes();
  double forward = 0;
  for (const LayerSpec& layer : model.layers) {
    std::vector<Shape> inputs;
    for (const int i : layer.inputs) inputs.push_back(i < 0 ? model.inputs[-1 - i].shape : shapes[i]);
    forward += flops(layer, inputs).forward.value;
  }
  const double products = 2.0 * (8'030'261'248.0 - 128'256.0 * 4'096) * 4'096;
  const double pairs = 32 * 4.0 * (4'096.0 * 4'097 / 2) * 4'096;
  EXPECT_NEAR(forward, products + pairs, 0.002 * forward);
}

TEST(HuggingFace, SequencesAreTheLongestUpToALimitOrAsGiven) {
  EXPECT_EQ(read(gpt2_config()).model.inputs[0].shape, Shape{1'024});
  EXPECT_EQ(read(llama_config()).model.inputs[0].shape, Shape{4'096});
  EXPECT_EQ(read(llama_config(), 8'192).model.inputs[0].shape, Shape{8'192});
  EXPECT_EQ(
      error_of([] { read(gpt2_config(), 1'025); }),
      "config.json: /n_positions: a sequence of 1025 tokens is longer than the model's 1024; give FILE#LENGTH with "
      "at most that many");
}

TEST(HuggingFace, SaysWhatTheLayersLeaveOut) {
  EXPECT_EQ(read(llama_config()).left_out, "");
  EXPECT_NE(read(gpt2_config()).left_out.find("tied weights"), std::string::npos);
  EXPECT_NE(read(t5_config()).left_out.find("relative position biases; tied weights"), std::string::npos);
  EXPECT_EQ(read(mistral_config()).left_out, "");
  EXPECT_NE(read(mistral_config(), 8'192).left_out.find("sliding window of 4096"), std::string::npos);
  EXPECT_EQ(read(vit_config()).left_out, "");
}

TEST(HuggingFace, AGatedT5HasAThirdMatrix) {
  Json config = t5_config();
  config["feed_forward_proj"] = "gated-gelu";
  EXPECT_EQ(parameters_of(config), parameters_of(t5_config()) + 12 * 512 * 2'048);
}

TEST(HuggingFace, MistakesSayWhatIsPossible) {
  const auto error = [](Json json, const std::string& key, const Json& value) {
    json[key] = value;
    return error_of([&] { read(json); });
  };
  EXPECT_EQ(error(mixtral_config(), "router_jitter_noise", 0.01),
            "config.json: /router_jitter_noise: noise before the router is not supported; give 0, or leave it out");
  EXPECT_EQ(error(mixtral_config(), "output_router_logits", true),
            "config.json: /output_router_logits: the router's auxiliary loss is not supported; give false, or leave it "
            "out");
  EXPECT_EQ(error(mixtral_config(), "num_experts_per_tok", 9),
            "config.json: /num_experts_per_tok: 9 of 8 experts cannot be chosen; give at most num_local_experts");
  EXPECT_NE(error(llama_config(), "model_type", "lama").find("unknown model type 'lama'; did you mean 'llama'?"),
            std::string::npos);
  EXPECT_NE(error(llama_config(), "num_attention_heads", 33).find("33 heads do not divide the width 4096"),
            std::string::npos);
  EXPECT_NE(error(llama_config(), "num_key_value_heads", 7).find("7 key and value heads do not divide 32 heads"),
            std::string::npos);
  EXPECT_NE(error(llama_config(), "hidden_act", "sillu").find("unknown activation 'sillu'"), std::string::npos);
  EXPECT_NE(error(llama_config(), "num_hidden_layers", 0).find("must be at least 1"), std::string::npos);
  EXPECT_NE(error(llama_config(), "num_hidden_layers", 1'001).find("/num_hidden_layers"), std::string::npos);
  EXPECT_NE(error(vit_config(), "patch_size", 15).find("do not divide an image of 224"), std::string::npos);
  EXPECT_NE(error_of([] { read(vit_config(), 100); }).find("leave #LENGTH out"), std::string::npos);
  Json nothing = llama_config();
  nothing.erase("hidden_size");
  EXPECT_NE(error_of([&] { read(nothing); }).find("hidden_size"), std::string::npos);
}

TEST(HuggingFace, AConfigIsAWorkloadOfAnyCommand) {
  const std::string file = testing::TempDir() + "/config.json";
  std::ofstream(file) << gpt2_config().dump();
  EXPECT_TRUE(is_workload_file(file));
  EXPECT_TRUE(is_workload_file(file + "#256"));
  const Workload w = read_workload(file + "#256", "w");
  EXPECT_EQ(w.model.inputs[0].shape, Shape{256});
  EXPECT_EQ(w.title, "gpt2, sequence 256");
  EXPECT_EQ(w.optimizer.name, "adamw");
  EXPECT_TRUE(w.runs_for_real);
  EXPECT_NE(error_of([&] { read_workload(file + "#many", "w"); }).find("'many' is no sequence length"),
            std::string::npos);

  const std::string workload = testing::TempDir() + "/on_config.json";
  std::ofstream(workload)
      << Json({{"schema", "sluice/workload/1"}, {"model", "config.json#128"}, {"batch", 8}, {"microbatches", 2}})
             .dump();
  EXPECT_EQ(read_workload(workload, "w").model.inputs[0].shape, Shape{128});
}

}  // namespace
}  // namespace sluice
