// MemoryByKind: the memory of one rank, split by what occupies it. The same type for what the executor counts, what the
// virtual clock predicts and what a record keeps.
#pragma once

#include "harness/base/quantities.h"

namespace sluice {

struct MemoryByKind {
  Bytes weights;      // the newest weights, gathered copies of sharded ones included
  Bytes versions;     // older weight versions and predicted weights
  Bytes gradients;    // of the weights
  Bytes optimizer;    // momentum, Adam's moments, what predictions keep
  Bytes activations;  // stashes between a forward and its backward
  Bytes buffers;      // messages, gradients of activations, scratch memory of kernels; predicted where they were
                      // measured and for inference, which has nothing else besides weights, else 0
  Bytes host;         // stashes in the host's memory (offload.h), at their own peak; no part of the total
  constexpr Bytes total() const { return weights + versions + gradients + optimizer + activations + buffers; }
};

}  // namespace sluice
