#include "harness/exec/torch/stage/moved_stash.h"

#include <ATen/ATen.h>

#include <map>

namespace sluice {

// All of a tensor's storage, as bytes that share it.
static at::Tensor bytes_of(const at::Tensor& tensor) {
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  return at::empty({0}, tensor.options().dtype(at::kByte)).set_(tensor.storage(), 0, {bytes}, {1});
}

MovedStash::MovedStash(const StageStashTensors& stash, MemoryCounters* counters, RankDevice* device)
    : counters_(counters), device_(device) {
  // Of every storage: its tensors, and which of them something outside the stash holds, too.
  struct Found {
    std::map<const void*, View> views;  // by tensor
    const at::Tensor* any = nullptr;
  };
  std::map<const void*, std::size_t> order;
  std::vector<Found> found;
  for (std::size_t l = 0; l < stash.layers.size(); ++l)
    for (std::size_t k = 0; k < stash.layers[l].kept.size(); ++k) {
      const at::Tensor& t = stash.layers[l].kept[k];
      if (!t.defined() || t.storage().nbytes() == 0) continue;
      const auto [place, is_new] = order.try_emplace(t.storage().unsafeGetStorageImpl(), found.size());
      if (is_new) found.push_back({{}, &t});
      View& view = found[place->second].views[t.unsafeGetTensorImpl()];
      view.places.push_back({l, k});
      view.sizes = t.sizes().vec();
      view.strides = t.strides().vec();
      view.offset = t.storage_offset();
      view.options = t.options();
    }
  const MemoryScope not_counted(nullptr, MemoryKind::buffers);
  for (Found& storage : found) {
    const auto handles = static_cast<std::size_t>(storage.any->storage().use_count());
    bool is_own = handles == storage.views.size();
    for (const auto& [tensor, view] : storage.views) {
      const Place& first = view.places.front();
      is_own = is_own && stash.layers[first.layer].kept[first.kept].use_count() == view.places.size();
    }
    if (!is_own) continue;
    Moved& moved = all_.emplace_back();
    for (auto& [tensor, view] : storage.views) moved.views.push_back(std::move(view));
    const at::Tensor source = bytes_of(*storage.any);
    const std::int64_t bytes = source.numel();
    bytes_ += bytes;
    if (device_) {
      moved.host = device_->host_memory(bytes);
      copied_ = device_->copy_beside(moved.host, source);
    } else {
      moved.host = source.clone();
    }
  }
  counters_->add_host(bytes_);
}

// On a GPU pinned memory is not reused before the copies that it was given are over.
MovedStash::~MovedStash() { counters_->remove_host(bytes_); }

void MovedStash::free(StageStashTensors& stash) {
  // The rank's stream uses the memory for something else only behind the copy.
  if (device_) device_->wait(copied_);
  for (const Moved& moved : all_)
    for (const View& view : moved.views)
      for (const Place& place : view.places) stash.layers[place.layer].kept[place.kept].reset();
}

void MovedStash::bring_back(StageStashTensors& stash) {
  const MemoryScope scope(counters_, MemoryKind::activations);
  for (Moved& moved : all_) {
    at::Tensor whole = at::empty({moved.host.numel()}, moved.views.front().options.dtype(at::kByte));
    if (device_) {
      copied_ = device_->copy_beside(whole, moved.host);
    } else {
      whole.copy_(moved.host);
    }
    for (const View& view : moved.views) {
      const at::Tensor tensor =
          at::empty({0}, view.options).set_(whole.storage(), view.offset, view.sizes, view.strides);
      for (const Place& place : view.places) stash.layers[place.layer].kept[place.kept] = tensor;
    }
  }
}

void MovedStash::wait() {
  if (device_) device_->wait(copied_);
}

}  // namespace sluice
