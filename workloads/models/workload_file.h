// Workloads as files: "sluice/workload/1", a model and its training, or a model alone: "sluice/model/1"
// (harness/model/model_json.h), or config.json of Hugging Face (hugging_face.h), as FILE or FILE#SEQUENCE_LENGTH.
// workload.schema.json in this folder is the same in JSON Schema.
#pragma once

#include <string>

#include "workloads/models/workload.h"

namespace sluice {

class Json;

inline constexpr const char* kWorkloadSchema = "sluice/workload/1";

// Whether `path` is a file of one of these kinds, and not JSON of another kind or no JSON.
bool is_workload_file(const std::string& path);

// `name` becomes Workload::name. A model alone has one fixed random batch, 4 micro-batches of 8 samples, SGD. A config
// has 32 micro-batches of one sample, AdamW, and above 200 million parameters it is for the virtual clock only. Throws
// InputError with file, JSON pointer and the possible values.
Workload read_workload(const std::string& path, const std::string& name);

// The content of a file of sluice/workload/1, with the model inside.
Json to_json(const Workload& workload);
// The same as readable text: one line per member and per layer.
std::string file_text(const Workload& workload);

}  // namespace sluice
