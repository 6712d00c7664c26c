// ResizableStorage: a flat tensor over the parameters of a stage whose memory is allocated and released while the
// tensor and its views stay: the gathered weights and the unreduced gradients of a sharded stage. Making the views
// costs more than the forward of a small stage, so they are made once; allocating swaps the memory of the storage below
// them, as PyTorch's FSDP does.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <span>
#include <vector>

#include "harness/exec/torch/stage/memory_counter.h"

namespace sluice {

class ResizableStorage {
 public:
  ResizableStorage() = default;
  // Without memory at first. views_of: the views of a tensor of `elements` or more.
  ResizableStorage(std::int64_t elements, const at::TensorOptions& options,
                   const std::function<std::vector<at::Tensor>(const at::Tensor&)>& views_of);

  // Uninitialised memory. Does nothing if there is memory already.
  void allocate(MemoryCounters* counters, MemoryKind kind);
  void release();
  bool allocated() const { return allocated_; }
  const at::Tensor& flat() const { return flat_; }
  std::span<const at::Tensor> views() const { return views_; }

 private:
  at::Tensor flat_;
  std::vector<at::Tensor> views_;
  std::size_t bytes_ = 0;
  bool allocated_ = false;
};

}  // namespace sluice
