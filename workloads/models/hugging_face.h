// Transformers described by Hugging Face's config.json (model_type gpt2, llama, mistral, mixtral, qwen2, bert, t5 or
// vit) as a model. Layers have the names of their modules in the transformers library, so a plan's cuts have those
// names.
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
  // Parts of the model without a layer ("weights of lm_head tied to the embedding"), as text; "": none.
  std::string left_out;
};

// sequence: tokens per sample; not given: the config's longest, at most 4,096. Not for a vision transformer. The head
// is the one of pretraining: the next token, masked tokens (bert), classes (vit). Throws InputError with file, JSON
// pointer and the possible values.
HuggingFaceModel read_hugging_face_config(const Json& config, const std::string& file,
                                          std::optional<std::int64_t> sequence);

}  // namespace sluice
