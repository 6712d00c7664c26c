#include "harness/exec/torch/session/synthetic_batch.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <stdexcept>

namespace sluice {

// Of the smallest embedding that reads the model's first input: every token id below it is valid.
static std::int64_t vocabulary(const ModelGraph& model) {
  std::int64_t smallest = INT64_MAX;
  for (const LayerSpec& layer : model.layers)
    if (const auto* table = std::get_if<Embedding>(&layer.kind); table && layer.inputs[0] == -1)
      smallest = std::min(smallest, table->vocabulary);
  return smallest;
}

SyntheticBatch make_synthetic_batch(const ModelGraph& model, std::int64_t samples, const at::TensorOptions& options) {
  if (samples < 1) throw std::logic_error("a session without a feed needs synthetic_batch");
  const auto with_batch = [&](const Shape& shape) {
    std::vector<std::int64_t> full{samples};
    full.insert(full.end(), shape.begin(), shape.end());
    return full;
  };
  const std::vector<Shape> shapes = model.shapes();
  SyntheticBatch batch;
  at::Generator generator = at::detail::createCPUGenerator(7);
  if (model.inputs.front().is_token_ids) {
    batch.features = at::randint(1, vocabulary(model), with_batch(model.inputs.front().shape), generator, at::kLong);
  } else {
    batch.features = at::randn(with_batch(model.inputs.front().shape), generator, at::kFloat).to(options.dtype());
  }
  const Shape& prediction = shapes[model.layers.size() - 2];
  if (std::holds_alternative<MseLoss>(model.layers.back().kind)) {
    batch.targets = at::randn(with_batch(prediction), generator, at::kFloat).to(options.dtype());
  } else {
    const Shape positions(prediction.begin(), prediction.end() - 1);
    batch.targets = at::randint(prediction.back(), with_batch(positions), generator, at::kLong);
  }
  return batch;
}

}  // namespace sluice
