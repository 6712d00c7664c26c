// Workloads as files: "sluice/workload/1", a model and how it is trained, or a model alone: "sluice/model/1"
// (harness/model/model_json.h), or config.json of Hugging Face (hugging_face.h), as FILE or FILE#SEQUENCE_LENGTH.
// workload.schema.json in this folder says the same in JSON Schema.
#pragma once

#include <string>

#include "workloads/models/workload.h"

namespace sluice {

class Json;

inline constexpr const char* kWorkloadSchema = "sluice/workload/1";

// Whether `path` is a file of one of these. A file that is JSON of other kinds, or no JSON, is not.
bool is_workload_file(const std::string& path);

// `name` becomes Workload::name. Of a model alone: one fixed random batch, 4 micro-batches of 8 samples, SGD. Of a
// config: 32 micro-batches of one sample, AdamW, and for the virtual clock only above 200 million parameters.
// Throws InputError with file, JSON pointer and what is possible.
Workload read_workload(const std::string& path, const std::string& name);

// As a file of sluice/workload/1 holds it, the model inside.
Json to_json(const Workload& workload);
// The same as the text of a file for people: a line for every member and every layer.
std::string file_text(const Workload& workload);

}  // namespace sluice
