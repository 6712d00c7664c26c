// A checkpoint file: one line of JSON (its case, the sizes of the tensors), then the bytes of the tensors in that
// order. Written to another file in its folder and renamed, so that it is complete or does not exist.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "harness/base/json.h"

namespace sluice {

struct CheckpointStage {
  std::vector<std::int64_t> numbers;  // StageWeights::State
  std::vector<at::Tensor> tensors;    // contiguous, of one dtype
};

struct Checkpoint {
  Json of;  // must be equal on loading: model, plan, optimizer, dtype, seed
  std::int64_t updates = 0;
  std::vector<CheckpointStage> stages;
};

void write_checkpoint(const Checkpoint& checkpoint, const std::string& path);  // throws InputError
// Throws InputError: missing, not a checkpoint, cut off, of another case than `of` (any_plan: except the plan).
Checkpoint read_checkpoint(const std::string& path, const Json& of, const at::TensorOptions& options,
                           bool any_plan = false);

}  // namespace sluice
