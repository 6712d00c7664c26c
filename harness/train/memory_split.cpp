#include "harness/train/memory_split.h"

namespace sluice {

MemorySplit split_of(const MemoryByKind& m) {
  return {.total = m.total().value,
          .weights = m.weights.value,
          .versions = m.versions.value,
          .gradients = m.gradients.value,
          .optimizer = m.optimizer.value,
          .activations = m.activations.value,
          .buffers = m.buffers.value,
          .host = m.host.value};
}

}  // namespace sluice
