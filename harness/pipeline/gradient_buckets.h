// Buckets of gradients: the gradients of a stage's replicas are all-reduced in buckets, each as soon as the backward
// has computed all of it (PyTorch's DistributedDataParallel: Li et al., VLDB 2020; also FSDP and Megatron-LM). Both
// clocks use these buckets.
#pragma once

#include <span>
#include <vector>

#include "harness/base/quantities.h"

namespace sluice {

inline constexpr Bytes kDefaultGradientBucket{25'000'000};  // about DistributedDataParallel's bucket_cap_mb of 25

// gradients: in the order in which a backward makes them. A bucket ends with the gradient that brings it to `least`
// bytes (above 0); the last one takes the rest. Returns the end of each bucket, 1 past its last gradient, so the last
// end is gradients.size(). No gradients: no buckets.
std::vector<std::size_t> gradient_bucket_ends(std::span<const Bytes> gradients, Bytes least);

}  // namespace sluice
