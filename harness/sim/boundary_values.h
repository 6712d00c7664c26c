// Values that two stages of one rank hold as one tensor: where a pipeline turns round on a rank (V
// and wave placement), a stage hands its output to the next without a copy, and what both keep of
// it takes its bytes once.
#pragma once

#include <span>
#include <vector>

#include "harness/model/model.h"

namespace sluice {

// The output of `layer`, as a stage that makes or receives it keeps it for a micro-batch.
struct BoundaryValue {
  int layer = 0;
  bool until_input_gradient = false;   // kept between F and the end of I or B
  bool until_weight_gradient = false;  // kept between I and W, once split
  Bytes bytes;
};
struct BoundaryValues {
  std::vector<BoundaryValue> sent, received;  // each ascending by layer; model inputs left out
  // The model's own input data that W reads: the feed's, unless W runs on another rank.
  Bytes data_until_weight_gradient;
};

// layers: of the stage, ascending; samples: of a micro-batch.
BoundaryValues boundary_values(const ModelGraph& model, std::span<const Shape> shapes, std::span<const int> layers,
                               std::int64_t samples);

}  // namespace sluice
