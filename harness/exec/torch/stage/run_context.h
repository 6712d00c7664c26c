// RunContext: the shared state of all ranks of a session while a program runs, and the data of its samples as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "harness/exec/session.h"

namespace sluice {

// Read-only while a program runs.
struct RunContext {
  const SessionSpec* spec = nullptr;
  at::TensorOptions options;  // dtype of features, weights, activations
  const RunRequest* request = nullptr;
  const Program* program = nullptr;
  std::int64_t first_update = 0;               // updates done before this run
  std::vector<at::Tensor> synthetic_features;  // of every model input, in sessions without a data feed
  at::Tensor synthetic_targets;                // the same
};

// The values of model input `number`, or the targets, of these samples of the training or the test set: [samples, ...].
at::Tensor load_input(const RunContext& context, bool train, std::size_t number, std::span<const std::int64_t> samples);
at::Tensor load_targets(const RunContext& context, bool train, std::span<const std::int64_t> samples);

}  // namespace sluice
