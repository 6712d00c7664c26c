// A model's layers as JSON, "sluice/model/1": what workload files hold and what workloads/import_pytorch.py writes.
// model.schema.json in this folder says the same in JSON Schema.
#pragma once

#include <string>

#include "harness/model/model.h"

namespace sluice {

class Json;
class JsonReader;

inline constexpr const char* kModelSchema = "sluice/model/1";

// {"schema", "name", "inputs": [{"shape", "token_ids"}], "layers": [{"name", "kind", "inputs", "block", and the fields
// of the kind}]}. What is as it is anyway is left out: inputs that are the layer before, a block that is the layer's
// own, fields at their defaults.
Json to_json(const ModelGraph& model);

// A layer's inputs are numbers (of earlier layers; -1, -2, ... of the model's inputs) or names of earlier layers.
// {"repeat": 24, "layers": [...]} among the layers stands for 24 copies of these. "{i}" in a name becomes the number of
// the copy, counted from "first" (0). A copy's first layer reads what "block_input" names in every list of inputs: the
// last layer of the copy before, and of the first copy the layer before the block, or "input". `block` grows by one a
// copy. to_json() writes every layer out.
// Throws InputError with file, place and what is possible, and the same that ModelGraph::shapes() throws; also for
// tensors of more than kMaxTensorBytes, so that no sum over the model overflows.
// folder: of the file, where the files of its Modules are looked for.
ModelGraph model_from_json(JsonReader reader, const std::string& folder = "");

}  // namespace sluice
