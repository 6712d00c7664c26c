// Initial weights of members of tensor-parallel groups.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "harness/model/tensor_split.h"

namespace sluice {

// Of the layers of model.all, by layer and parameter: the members' parts of the whole model's.
std::vector<std::vector<at::Tensor>> member_weights(const TensorModel& model, std::uint64_t seed,
                                                    const at::TensorOptions& options);

}  // namespace sluice
