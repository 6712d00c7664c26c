// A model's layers as JSON, "sluice/model/1": the content of workload files and the output of
// workloads/import_pytorch.py. model.schema.json in this folder is the same in JSON Schema.
#pragma once

#include <string>

#include "harness/model/model.h"

namespace sluice {

class Json;
class JsonReader;

inline constexpr const char* kModelSchema = "sluice/model/1";

// {"schema", "name", "inputs": [{"shape", "token_ids"}], "layers": [{"name", "kind", "inputs", "block", and the fields
// of the kind}]}. Defaults are left out: inputs that are the previous layer, a block that is the layer's own, fields at
// their defaults.
Json to_json(const ModelGraph& model);

// A layer's inputs are numbers (of earlier layers; -1, -2, ... of the model's inputs) or names of earlier layers.
// {"repeat": 24, "layers": [...]} among the layers stands for 24 copies of these. "{i}" in a name becomes the number of
// the copy, counted from "first" (0). "block_input" in a list of inputs stands for the last layer of the previous copy,
// and in the first copy for the layer before the block, or "input". `block` grows by one per copy. to_json() writes
// every layer separately. Throws InputError with file, place and the possible values, and as ModelGraph::shapes(); also
// for tensors of more than kMaxTensorBytes, so that no sum over the model overflows. folder: of the file, where the
// files of its Modules are.
ModelGraph model_from_json(JsonReader reader, const std::string& folder = "");

}  // namespace sluice
