// Counted allocations: every tensor's bytes belong to a rank and a kind, taken from the scope in
// which it was allocated, so that "peak memory of rank 2, of which activations" is measured and not
// estimated. Works by putting a header before each CPU allocation; the count is of bytes asked for.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "harness/exec/session.h"

namespace sluice {

enum class MemoryKind : std::uint8_t {
  weights,
  versions,
  gradients,
  optimizer,
  activations,
  buffers
};

// The counts of one rank. Made by new_counters() and kept for the life of the process: a tensor may
// outlive the session that made it.
class MemoryCounters {
 public:
  void add(MemoryKind kind, std::int64_t bytes);
  void remove(MemoryKind kind, std::int64_t bytes);
  PeakMemory peak() const;  // call while the rank is idle
  void reset_peak();

 private:
  std::array<std::atomic<std::int64_t>, 6> bytes_{};
  std::atomic<std::int64_t> total_{0}, peak_total_{0};
  PeakMemory peak_;
};

// Makes the counting allocator torch's CPU allocator. Once; later calls do nothing.
void install_counting_allocator();
MemoryCounters* new_counters();

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

// Moves the storage of a tensor to another rank or kind (a message that changes hands, a version
// that grows old).
void recount(const at::Tensor& tensor, MemoryCounters* counters, MemoryKind kind);

}  // namespace sluice
