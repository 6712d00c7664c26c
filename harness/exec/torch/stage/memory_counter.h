// Counted allocations: the bytes of every tensor belong to a rank and a kind, by the scope in which it was allocated,
// so the peak memory of a rank and its split by kind are measured and not estimated. On the CPU a header precedes each
// allocation; on a GPU, torch's own allocator reports. The requested bytes are counted. The counters of a rank count
// memory of the kind of device that it computes on: staging buffers on the host of a GPU are not part of its peak.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "harness/pipeline/memory_by_kind.h"

namespace sluice {

enum class MemoryKind : std::uint8_t { weights, versions, gradients, optimizer, activations, buffers };

// The counts of one rank. In addition to the peak of everything, the peak of the resident tensors (all kinds but
// buffers) is kept, because the schedule determines it and a prediction can be compared with it. Made by new_counters()
// and kept for the life of the process: a tensor may outlive the session that made it.
class MemoryCounters {
 public:
  explicit MemoryCounters(bool of_gpu = false) : of_gpu_(of_gpu) {}
  bool of_gpu() const { return of_gpu_; }
  void add(MemoryKind kind, std::int64_t bytes);
  void remove(MemoryKind kind, std::int64_t bytes);
  // A separate pool, the host's, for any device: bytes of stashes on the host; not part of any total.
  void add_host(std::int64_t bytes);
  void remove_host(std::int64_t bytes) { host_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Kinds but buffers: when their sum is largest. buffers: the difference between that sum and the peak of everything,
  // so total() is the peak. Call while the rank is idle.
  MemoryByKind peak() const;
  void reset_peak();

  // The peak of everything in a part of the rank's own work. Windows nest: an outer one includes its inner ones.
  struct Mark {
    std::int64_t start = 0, outer = 0;
  };
  struct Window {
    std::int64_t peak = 0, left = 0;  // bytes above those at its start: the peak, and at its end
  };
  Mark begin_window();
  Window end_window(const Mark& mark);

 private:
  std::array<std::atomic<std::int64_t>, 6> bytes_{};
  std::atomic<std::int64_t> total_{0}, peak_total_{0}, peak_resident_{0};
  std::atomic<std::int64_t> host_{0}, peak_host_{0};
  std::atomic<std::int64_t> window_{0};  // the peak of everything since the innermost window began
  MemoryByKind resident_;                // at the peak of what is resident; buffers 0
  bool of_gpu_;
};

// Makes the counting allocator torch's CPU allocator. Once; later calls do nothing.
void install_counting_allocator();
MemoryCounters* new_counters(bool of_gpu = false);

// Reports of a GPU's allocator: an allocation by this thread, and the end of one (when all streams are done with the
// memory, not at the request to free it).
void note_gpu_allocation(const void* data, std::int64_t bytes);
void note_gpu_release(const void* data);

// Allocations of this thread count for `counters` as `kind` while the scope lives. Scopes nest.
class MemoryScope {
 public:
  MemoryScope(MemoryCounters* counters, MemoryKind kind);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;

 private:
  MemoryCounters* before_;
  MemoryKind kind_before_;
};

// Counts the allocations of this thread during its life. Does not nest.
class Allocated {
 public:
  Allocated();
  ~Allocated();
  Allocated(const Allocated&) = delete;
  // Memory that is not freed yet and counts as buffers counts as activations from now on, except the output's storage:
  // autograd keeps it for its operations, and recount() cannot reach it.
  void keep(const at::Tensor& output);
};

// From now on, counts the storage of a tensor for another rank or kind (a received message, a version that is no longer
// the newest).
void recount(const at::Tensor& tensor, MemoryCounters* counters, MemoryKind kind);

}  // namespace sluice
