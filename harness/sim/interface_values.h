// What a stage keeps of the values that it sends to other stages or receives from them. If two neighbouring stages are
// on one rank (at the turning points of V and wave placements), the first passes its output to the second without a
// copy: one tensor, whose bytes count once although both stages keep it.
#pragma once

#include <span>
#include <vector>

#include "harness/model/model.h"

namespace sluice {

// The output of `layer` in the form that a stage which makes or receives it keeps for a micro-batch.
struct InterfaceValue {
  int layer = 0;
  bool until_input_gradient = false;   // kept between F and the end of I or B
  bool until_weight_gradient = false;  // kept between I and W, once split
  bool has_gradient = true;            // its gradient comes back
  Bytes bytes;
};
struct InterfaceValues {
  std::vector<InterfaceValue> sent, received;  // each ascending by layer; model inputs left out
  // The model's own input data that W reads. The data feed of the pipeline holds it, unless W runs on another rank:
  // then it is sent with the stash.
  Bytes data_until_weight_gradient;
};

// layers: of the stage, ascending; samples: per micro-batch.
InterfaceValues interface_values(const ModelGraph& model, std::span<const Shape> shapes, std::span<const int> layers,
                                 std::int64_t samples, const Storage& storage = {});

}  // namespace sluice
