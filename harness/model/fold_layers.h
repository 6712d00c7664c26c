// The layers of a model in short form: repeated blocks as {"repeat": N, "layers": [...]} (model_json.h).
#pragma once

#include "harness/model/model.h"

namespace sluice {

class Json;

// The list of sluice/model/1, shortened by runs of at least three equal blocks of at most 64 layers; layers are equal
// up to the number in their names. model_from_json() makes the same model of it.
Json folded_layers(const ModelGraph& model);

// `copies` equal blocks of `size` layers each, from layer `begin` on.
struct RepeatedBlocks {
  int begin = 0, size = 0, copies = 0;
};
// The run that shortens the list of layers most, such as a transformer's blocks; no copies: no block repeats.
RepeatedBlocks repeated_blocks(const ModelGraph& model);

}  // namespace sluice
