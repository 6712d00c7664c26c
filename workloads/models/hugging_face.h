// Transformers described by Hugging Face's config.json (model_type gpt2, llama, mistral, mixtral, qwen2, bert, t5 or
// vit) as a model. Layers have the names of their modules in the transformers library, so that a plan's cuts are names
// there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/model/model.h"

namespace sluice {

class Json;

bool is_hugging_face_config(const Json& json);

struct HuggingFaceModel {
  ModelGraph model;
  // What the model has that the layers do not ("weights of lm_head tied to the embedding"), for people; "" for nothing.
  std::string left_out;
};

// sequence: tokens of a sample; not given: the config's longest, at most 4,096. A vision transformer takes none.
// The head is the one of pretraining: the next token, masked tokens (bert), classes (vit).
// Throws InputError with file, JSON pointer and what is possible.
HuggingFaceModel read_hugging_face_config(const Json& config, const std::string& file,
                                          std::optional<std::int64_t> sequence);

}  // namespace sluice
