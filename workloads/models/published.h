// Models with the layer counts of the papers that cut them: the published layer of each of our layers, so that a
// published balance ("44, 92, 124, 110 layers") becomes a cut of the graph.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/model/model.h"

namespace sluice {

struct PublishedModel {
  ModelGraph graph;
  std::vector<int> unit_of_layer;  // the published layer, from 0; ascending
  int units = 0;                   // published layers
  std::int64_t parameters = 0;
  double forward_flops = 0;  // per sample
};

// family: resnet50, resnet101 (layers as in torchgpipe's flattened model), amoebanet_d {layers, filters}, gpt {layers,
// hidden, heads, sequence, vocabulary} (a transformer block is a layer; embedding and head belong to the first and the
// last), gpt_with_dropout and bert of the same sizes, vgg16, unet {convolutions, channels}. Throws InputError at
// `where`: an unknown family, a size that is missing, unknown or too large.
PublishedModel published_model(const std::string& family, const std::map<std::string, std::int64_t>& sizes,
                               const std::string& where);

}  // namespace sluice
