#include "harness/exec/torch/stage/memory_counter.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace sluice {

void MemoryCounters::add(MemoryKind kind, std::int64_t bytes) {
  bytes_[static_cast<std::size_t>(kind)].fetch_add(bytes, std::memory_order_relaxed);
  const std::int64_t total = total_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  // A thread that receives messages for the rank may allocate too, buffers only.
  std::int64_t highest = peak_total_.load(std::memory_order_relaxed);
  while (total > highest && !peak_total_.compare_exchange_weak(highest, total)) {
  }
  // A peak of the window that another thread's allocation makes may be lost: windows are of the rank's own work.
  if (total > window_.load(std::memory_order_relaxed)) window_.store(total, std::memory_order_relaxed);
  // The rest only the rank's own thread: what is resident has one writer.
  if (kind == MemoryKind::buffers) return;
  const auto now = [&](MemoryKind k) {
    return Bytes(bytes_[static_cast<std::size_t>(k)].load(std::memory_order_relaxed));
  };
  const MemoryByKind resident{.weights = now(MemoryKind::weights),
                              .versions = now(MemoryKind::versions),
                              .gradients = now(MemoryKind::gradients),
                              .optimizer = now(MemoryKind::optimizer),
                              .activations = now(MemoryKind::activations)};
  if (resident.total().value > peak_resident_.load(std::memory_order_relaxed)) {
    peak_resident_.store(resident.total().value, std::memory_order_relaxed);
    resident_ = resident;
  }
}

void MemoryCounters::remove(MemoryKind kind, std::int64_t bytes) {
  bytes_[static_cast<std::size_t>(kind)].fetch_sub(bytes, std::memory_order_relaxed);
  total_.fetch_sub(bytes, std::memory_order_relaxed);
}

void MemoryCounters::add_host(std::int64_t bytes) {
  const std::int64_t now = host_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (now > peak_host_.load(std::memory_order_relaxed)) peak_host_.store(now, std::memory_order_relaxed);
}

MemoryByKind MemoryCounters::peak() const {
  MemoryByKind peak = resident_;
  peak.host = Bytes(peak_host_.load());
  peak.buffers = Bytes(peak_total_.load()) - resident_.total();
  return peak;
}

void MemoryCounters::reset_peak() {
  peak_total_.store(0);
  peak_resident_.store(-1);
  peak_host_.store(host_.load());
  add(MemoryKind::weights, 0);
}

MemoryCounters::Mark MemoryCounters::begin_window() {
  const std::int64_t now = total_.load(std::memory_order_relaxed);
  return {now, window_.exchange(now, std::memory_order_relaxed)};
}

MemoryCounters::Window MemoryCounters::end_window(const Mark& mark) {
  const std::int64_t highest = window_.load(std::memory_order_relaxed);
  window_.store(std::max(mark.outer, highest), std::memory_order_relaxed);
  return {highest - mark.start, total_.load(std::memory_order_relaxed) - mark.start};
}

namespace {

thread_local MemoryCounters* current_counters = nullptr;
thread_local MemoryKind current_kind = MemoryKind::buffers;
thread_local std::unordered_set<const void*>* allocated = nullptr;  // of the thread's Allocated

constexpr std::size_t kHeader = 64;  // keeps the data aligned to a cache line, as torch's own allocator does

struct Block {
  MemoryCounters* counters;
  std::int64_t bytes;
  MemoryKind kind;
};

// The context of a DataPtr is its data (oneDNN's raw_allocate insists); the header stands before it.
Block* block_of(void* data) { return reinterpret_cast<Block*>(static_cast<char*>(data) - kHeader); }

void free_data(void* data) {
  if (!data) return;
  Block* block = block_of(data);
  if (block->counters) block->counters->remove(block->kind, block->bytes);
  if (allocated) allocated->erase(data);
  std::free(block);
}

class CountingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &free_data, cpu};
    const std::size_t rounded = (bytes + kHeader + 63) / 64 * 64;
    void* base = std::aligned_alloc(64, rounded);
    if (!base) throw std::bad_alloc();
    MemoryCounters* counters = current_counters && !current_counters->of_gpu() ? current_counters : nullptr;
    auto* block = new (base) Block{counters, static_cast<std::int64_t>(bytes), current_kind};
    if (block->counters) block->counters->add(block->kind, block->bytes);
    void* data = static_cast<char*>(base) + kHeader;
    if (allocated && counters) allocated->insert(data);
    return {data, data, &free_data, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_data; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

// Blocks of GPUs have no room for a header: they are kept by their address.
std::mutex gpu_mutex;
std::unordered_map<const void*, Block> gpu_blocks;

void move_block(Block& block, MemoryCounters* counters, MemoryKind kind) {
  if (block.counters == counters && block.kind == kind) return;
  if (block.counters) block.counters->remove(block.kind, block.bytes);
  block.counters = counters;
  block.kind = kind;
  if (counters) counters->add(kind, block.bytes);
}

}  // namespace

void note_gpu_allocation(const void* data, std::int64_t bytes) {
  MemoryCounters* counters = current_counters && current_counters->of_gpu() ? current_counters : nullptr;
  const std::lock_guard lock(gpu_mutex);
  gpu_blocks[data] = {counters, bytes, current_kind};
  if (allocated && counters) allocated->insert(data);
  if (counters) counters->add(current_kind, bytes);
}

void note_gpu_release(const void* data) {
  const std::lock_guard lock(gpu_mutex);
  const auto block = gpu_blocks.find(data);
  if (block == gpu_blocks.end()) return;  // from before it was followed
  if (block->second.counters) block->second.counters->remove(block->second.kind, block->second.bytes);
  if (allocated) allocated->erase(data);
  gpu_blocks.erase(block);
}

void install_counting_allocator() {
  static CountingAllocator allocator;
  static std::once_flag once;
  std::call_once(once, [] { c10::SetCPUAllocator(&allocator, 100); });
}

MemoryCounters* new_counters(bool of_gpu) {
  static std::mutex mutex;
  static std::deque<MemoryCounters> all;
  const std::lock_guard lock(mutex);
  return &all.emplace_back(of_gpu);
}

MemoryScope::MemoryScope(MemoryCounters* counters, MemoryKind kind)
    : before_(current_counters), kind_before_(current_kind) {
  current_counters = counters;
  current_kind = kind;
}

MemoryScope::~MemoryScope() {
  current_counters = before_;
  current_kind = kind_before_;
}

Allocated::Allocated() { allocated = new std::unordered_set<const void*>; }
Allocated::~Allocated() { delete std::exchange(allocated, nullptr); }

void Allocated::keep(const at::Tensor& output) {
  allocated->erase(output.storage().data());
  const bool of_gpu = current_counters && current_counters->of_gpu();
  const std::lock_guard lock(gpu_mutex);
  for (const void* data : *allocated) {
    const auto on_gpu = of_gpu ? gpu_blocks.find(data) : gpu_blocks.end();
    Block* const block =
        of_gpu ? (on_gpu == gpu_blocks.end() ? nullptr : &on_gpu->second) : block_of(const_cast<void*>(data));
    if (block && block->kind == MemoryKind::buffers) move_block(*block, block->counters, MemoryKind::activations);
  }
}

static Block* block_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  const c10::DataPtr& data = tensor.storage().data_ptr();
  if (data.get_deleter() != &free_data || !data.get_context()) return nullptr;
  return block_of(data.get_context());
}

// The block of a tensor on a GPU; gpu_mutex must be held.
static Block* gpu_block_of(const at::Tensor& tensor) {
  const auto block = gpu_blocks.find(tensor.storage().data_ptr().get());
  return block == gpu_blocks.end() ? nullptr : &block->second;
}
static bool on_gpu(const at::Tensor& tensor) { return tensor.defined() && tensor.is_cuda(); }

void recount(const at::Tensor& tensor, MemoryCounters* counters, MemoryKind kind) {
  if (on_gpu(tensor)) {
    const std::lock_guard lock(gpu_mutex);
    if (Block* block = gpu_block_of(tensor)) move_block(*block, counters, kind);
    return;
  }
  if (counters && counters->of_gpu()) counters = nullptr;
  if (Block* block = block_of(tensor)) move_block(*block, counters, kind);
}

}  // namespace sluice
