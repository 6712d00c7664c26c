// Multi-layer perceptrons: a classifier of images, and the one that PyTorch's pipeline runtime is timed on.
#include "workloads/models/models.h"

namespace sluice {

ModelGraph mlp_classifier(const std::vector<std::int64_t>& widths, Shape image) {
  ChainBuilder b("mlp", {.shape = image});
  b.add("flatten", Flatten{});
  std::int64_t in = elements(image);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    b.add("linear" + std::to_string(i), Linear{in, widths[i]});
    if (i + 1 < widths.size()) b.add("relu" + std::to_string(i), Activation{});
    b.next_block();
    in = widths[i];
  }
  b.add("loss", CrossEntropyLoss{});
  return b.finish();
}

ModelGraph mlp_regression(std::int64_t width, int layers) {
  ChainBuilder b("mlp" + std::to_string(width) + "x" + std::to_string(layers), {.shape = {width}});
  for (int i = 0; i < layers; ++i) {
    b.add("linear" + std::to_string(i), Linear{width, width});
    if (i + 1 < layers) b.add("relu" + std::to_string(i), Activation{});
    b.next_block();
  }
  b.add("loss", MseLoss{});
  return b.finish();
}

}  // namespace sluice
