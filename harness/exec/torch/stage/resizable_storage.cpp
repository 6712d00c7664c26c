#include "harness/exec/torch/stage/resizable_storage.h"

namespace sluice {

ResizableStorage::ResizableStorage(std::int64_t elements, const at::TensorOptions& options,
                                   const std::function<std::vector<at::Tensor>(const at::Tensor&)>& views_of)
    : flat_(at::empty({elements}, options)), views_(views_of(flat_)), bytes_(flat_.nbytes()) {
  allocated_ = true;
  release();
}

void ResizableStorage::allocate(MemoryCounters* counters, MemoryKind kind) {
  if (allocated_) return;
  const MemoryScope scope(counters, kind);
  c10::StorageImpl* const storage = flat_.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes_));
  storage->set_nbytes(bytes_);
  allocated_ = true;
}

void ResizableStorage::release() {
  if (!allocated_) return;
  c10::StorageImpl* const storage = flat_.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(0));
  storage->set_nbytes(0);
  allocated_ = false;
}

}  // namespace sluice
