#include "harness/exec/torch/session/synthetic_batch.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <stdexcept>

namespace sluice {

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
  const auto draw = [&](std::size_t i) {
    const ModelInput& input = model.inputs[i];
    if (!input.is_token_ids) return at::randn(with_batch(input.shape), generator, at::kFloat).to(options.dtype());
    const std::int64_t words = vocabulary(model, static_cast<int>(i)),
                       first = std::min<std::int64_t>(1, words - 1);  // 0 is padding
    return at::randint(first, words, with_batch(input.shape), generator, at::kLong);
  };
  batch.features.push_back(draw(0));
  const Shape& prediction = shapes[model.layers.size() - 2];
  if (std::holds_alternative<BinaryCrossEntropyLoss>(model.layers.back().kind)) {
    batch.targets = at::randint(2, with_batch(prediction), generator, at::kFloat).to(options.dtype());
  } else if (has_dense_target(model.layers.back().kind)) {
    batch.targets = at::randn(with_batch(prediction), generator, at::kFloat).to(options.dtype());
  } else {
    const Shape positions(prediction.begin(), prediction.end() - 1);
    batch.targets = at::randint(prediction.back(), with_batch(positions), generator, at::kLong);
  }
  for (std::size_t i = 1; i < model.inputs.size(); ++i) batch.features.push_back(draw(i));
  return batch;
}

}  // namespace sluice
