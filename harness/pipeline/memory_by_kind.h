// MemoryByKind: the memory of one rank by kind. The executor counts it, the virtual clock predicts it, and records keep
// it.
#pragma once

#include "harness/base/quantities.h"

namespace sluice {

struct MemoryByKind {
  Bytes weights;      // the newest weights, including gathered copies of sharded ones
  Bytes versions;     // older weight versions and predicted weights
  Bytes gradients;    // of the weights
  Bytes optimizer;    // momentum, Adam's moments, state of predictions
  Bytes activations;  // stashes between a forward and its backward
  Bytes buffers;      // messages, gradients of activations, scratch memory of kernels; predicted if they were measured
                      // and for inference, which has only buffers and weights; else 0
  Bytes host;         // stashes in the host's memory (offload.h), at their own peak; not in the total
  constexpr Bytes total() const { return weights + versions + gradients + optimizer + activations + buffers; }
};

}  // namespace sluice
