// The one fixed batch of a session without a data feed, which compares with PyTorch's own pipeline runtime.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "harness/model/model.h"

namespace sluice {

struct SyntheticBatch {
  std::vector<at::Tensor> features;  // of every input of the model: [samples, ...]
  at::Tensor targets;                // [samples, ...]
};

// As PyTorch draws it: g = Generator(seed 7); features = randn(g) (token ids: randint); targets = randn(g) if the loss
// is the mean squared error, else classes by randint; then the features of further inputs.
SyntheticBatch make_synthetic_batch(const ModelGraph& model, std::int64_t samples, const at::TensorOptions& options);

}  // namespace sluice
