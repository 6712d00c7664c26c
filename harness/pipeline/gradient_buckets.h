// Buckets of gradients: the gradients of a stage's replicas are all-reduced in buckets, each as soon as the backward
// has made all of it (PyTorch's DistributedDataParallel: Li et al., VLDB 2020; also FSDP and Megatron-LM). Both clocks
// cut them here.
#pragma once

#include <span>
#include <vector>

#include "harness/base/quantities.h"

namespace sluice {

inline constexpr Bytes kDefaultGradientBucket{25'000'000};  // about DistributedDataParallel's bucket_cap_mb of 25

// gradients: in the order in which a backward makes them. A bucket ends with the gradient that brings it to `least`
// bytes; the last one takes the rest. Returns where each bucket ends: 1 past its last gradient, so that the last end is
// gradients.size(). No gradients: no buckets. least: above 0.
std::vector<std::size_t> gradient_bucket_ends(std::span<const Bytes> gradients, Bytes least);

}  // namespace sluice
