// A rank on a GPU: torch's streams and caching allocator, CUDA's events.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <mutex>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/numbers.h"
#include "harness/exec/torch/cuda/cuda_backend.h"
#include "harness/exec/torch/cuda/nccl_versions.h"
#include "harness/exec/torch/stage/memory_counter.h"

namespace sluice {

namespace {

constexpr std::int64_t kCyclesOfAMillisecond = 2'000'000;  // at 2 GHz, which no GPU exceeds by much

cudaEvent_t event_of(const RankDevice::Event& event) { return static_cast<cudaEvent_t>(event.get()); }

RankDevice::Event new_event(cudaStream_t stream, bool timed) {
  cudaEvent_t event = nullptr;
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming));
  RankDevice::Event owned(event, [](void* e) { cudaEventDestroy(static_cast<cudaEvent_t>(e)); });
  C10_CUDA_CHECK(cudaEventRecord(event, stream));
  return owned;
}

class CudaRankDevice : public RankDevice {
 public:
  explicit CudaRankDevice(int device)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, static_cast<c10::DeviceIndex>(device))),
        copies_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, static_cast<c10::DeviceIndex>(device))) {}

  at::Device device() const override { return stream_.device(); }
  void* stream() const override { return stream_.stream(); }
  void enter() override {
    c10::cuda::set_device(stream_.device_index());
    c10::cuda::setCurrentCUDAStream(stream_);
  }
  void synchronize() override {
    const c10::cuda::CUDAGuard guard(stream_.device_index());
    C10_CUDA_CHECK(cudaDeviceSynchronize());
  }

  void stay_busy() override { at::cuda::sleep(kCyclesOfAMillisecond); }

  Event record() override { return new_event(stream_.stream(), false); }
  void wait(const Event& event) override {
    if (event) C10_CUDA_CHECK(cudaStreamWaitEvent(stream_.stream(), event_of(event), 0));
  }
  bool passed(const Event& event) override {
    const cudaError_t state = cudaEventQuery(event_of(event));
    if (state == cudaErrorNotReady) {
      cudaGetLastError();  // no error: torch's next check must not find it
      return false;
    }
    C10_CUDA_CHECK(state);
    return true;
  }
  void wait_on_host(const Event& event) override { C10_CUDA_CHECK(cudaEventSynchronize(event_of(event))); }
  // Only from and into pinned memory does a copy not wait for the GPU.
  at::Tensor from_host(const at::Tensor& tensor) override {
    return tensor.pin_memory().to(device(), /*non_blocking=*/true);
  }
  at::Tensor to_host(const at::Tensor& tensor) override {
    at::Tensor copy = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true));
    return copy.copy_(tensor, /*non_blocking=*/true);
  }
  at::Tensor host_memory(std::int64_t bytes) override {
    return at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(true));
  }
  Event copy_beside(at::Tensor& to, const at::Tensor& from) override {
    const Event before = record();
    C10_CUDA_CHECK(cudaStreamWaitEvent(copies_.stream(), event_of(before), 0));
    const c10::cuda::CUDAStreamGuard guard(copies_);
    to.copy_(from, /*non_blocking=*/true);
    return new_event(copies_.stream(), false);
  }
  void used_here(const at::Tensor& tensor) override {
    c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), stream_);
  }

  void start(double seconds) override {
    marks_.clear();
    begin_seconds_ = seconds;
    begin_ = new_event(stream_.stream(), true);
  }
  double mark() override {
    marks_.push_back(new_event(stream_.stream(), true));
    return static_cast<double>(marks_.size());
  }
  double seconds(double mark) override {
    if (mark == 0) return 0;
    const Event& event = marks_.at(static_cast<std::size_t>(mark) - 1);
    C10_CUDA_CHECK(cudaEventSynchronize(event_of(event)));
    float milliseconds = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, event_of(begin_), event_of(event)));
    return begin_seconds_ + static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  c10::cuda::CUDAStream stream_, copies_;
  Event begin_;
  double begin_seconds_ = 0;
  std::vector<Event> marks_;
};

// The driver reads these when it starts, so they are set before the first call of CUDA. Streams that share one of the
// default 8 queues wait for one another; cuBLAS gives the same bits again on several streams only with a workspace for
// each.
void set_environment() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
    ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  });
}

int device_count() {
  set_environment();
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

// The allocator reports every allocation on the thread that makes it, so a rank's memory scopes count as they do on the
// CPU. A block counts until no stream uses it any more.
void follow_allocator() {
  using Trace = c10::cuda::CUDACachingAllocator::TraceEntry;
  static std::once_flag once;
  std::call_once(once, [] {
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker([](const Trace& entry) {
      const void* data = reinterpret_cast<const void*>(entry.addr_);
      if (entry.action_ == Trace::ALLOC) note_gpu_allocation(data, static_cast<std::int64_t>(entry.size_));
      if (entry.action_ == Trace::FREE_COMPLETED) note_gpu_release(data);
    });
  });
}

std::string cuda_version_text(int code) { return std::to_string(code / 1000) + "." + std::to_string(code / 10 % 100); }

// Which of the processes on its machine this one is, as the launcher says; its rank if the launcher does not say.
int local_rank(const ProcessGroup& processes) {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const auto rank = number_in_environment(name)) return *rank;
  return processes.rank();
}

}  // namespace

std::string rejection_of_this_machine() {
  set_environment();
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return "";
  cudaGetLastError();
  return std::string("no CUDA device is usable here (") +
         (error == cudaSuccess ? "there is none" : cudaGetErrorString(error)) +
         "); see nvidia-smi and CUDA_VISIBLE_DEVICES";
}

std::vector<std::unique_ptr<RankDevice>> make_cuda_devices(std::size_t ranks, ProcessGroup* processes) {
  if (const std::string rejection = rejection_of_this_machine(); !rejection.empty())
    throw InputError("device", rejection);
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(false);
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setBenchmarkCuDNN(false);
  follow_allocator();
  std::vector<std::unique_ptr<RankDevice>> devices(ranks);
  const int count = device_count();
  for (std::size_t r = 0; r < ranks; ++r) {
    if (processes && static_cast<int>(r) != processes->rank()) continue;
    devices[r] =
        std::make_unique<CudaRankDevice>(processes ? local_rank(*processes) % count : device_of_rank(r, ranks, count));
  }
  return devices;
}

Json describe_this_machine() {
  Json names = Json::array();
  for (int d = 0; d < device_count(); ++d) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, d) != cudaSuccess) continue;
    names.push_back(
        {{"name", properties.name},
         {"memory_bytes", properties.totalGlobalMem},
         {"compute_capability", std::to_string(properties.major) + "." + std::to_string(properties.minor)}});
  }
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const NcclVersions nccl = nccl_versions();
  return {{"devices", names},
          {"driver", driver > 0 ? Json(cuda_version_text(driver)) : nullptr},
          {"runtime", cuda_version_text(runtime)},
          {"nccl", {{"header", nccl.header}, {"library", nccl.library}}}};
}

}  // namespace sluice
