#include "harness/train/memory_split.h"

namespace sluice {

MemorySplit split_of(const PeakMemory& m) {
  return {.total = m.total(),
          .weights = m.weights,
          .versions = m.versions,
          .gradients = m.gradients,
          .optimizer = m.optimizer,
          .activations = m.activations,
          .buffers = m.buffers};
}

MemorySplit split_of(const MemoryPoint& m) {
  return {.total = m.total().value,
          .weights = m.weights.value,
          .versions = m.versions.value,
          .gradients = m.gradients.value,
          .optimizer = m.optimizer.value,
          .activations = m.activations.value,
          .buffers = 0};
}

}  // namespace sluice
