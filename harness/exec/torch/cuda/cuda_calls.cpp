// DeviceCalls by CUDA and NCCL themselves. NCCL's header and library are those of the wheel that torch was built for:
// CMake puts them before the toolkit's, and nccl_versions() reports the versions of both.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

#include "harness/exec/nccl/device_calls.h"
#include "harness/exec/torch/cuda/nccl_versions.h"

namespace sluice {

namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(error));
}

// A call on a communicator that does not block may still be in progress: state() says when it is done.
void check(ncclResult_t result, ncclComm_t comm, const char* what) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  std::string text = std::string("NCCL: ") + what + ": " + ncclGetErrorString(result);
  if (const char* last = ncclGetLastError(comm); last && *last) text += std::string(": ") + last;
  throw std::runtime_error(text);
}

ncclDataType_t type_of(ElementType type) { return type == ElementType::float32 ? ncclFloat32 : ncclFloat64; }

class CudaCalls : public DeviceCalls {
 public:
  ~CudaCalls() override {
    for (auto& [device, byte] : scratch_) cudaFree(byte);
  }

  void use_device(int device) override { check(cudaSetDevice(device), "cudaSetDevice"); }

  Stream make_stream() override {
    cudaStream_t stream = nullptr;
    // Above the streams that compute: a short kernel that others wait for.
    int lowest = 0, highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest), "cudaStreamCreateWithPriority");
    return stream;
  }
  void drop_stream(Stream stream) override {
    if (stream) cudaStreamDestroy(static_cast<cudaStream_t>(stream));
  }

  Event record(Stream stream) override {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    Event owned(event, [](void* e) { cudaEventDestroy(static_cast<cudaEvent_t>(e)); });
    check(cudaEventRecord(event, static_cast<cudaStream_t>(stream)), "cudaEventRecord");
    return owned;
  }
  void wait(Stream stream, const Event& event) override {
    check(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event.get()), 0),
          "cudaStreamWaitEvent");
  }
  bool passed(const Event& event) override {
    const cudaError_t state = cudaEventQuery(static_cast<cudaEvent_t>(event.get()));
    if (state == cudaErrorNotReady) {
      cudaGetLastError();  // not an error: must not be found by the next check of somebody else
      return false;
    }
    check(state, "cudaEventQuery");
    return true;
  }

  NcclId make_id() override {
    ncclUniqueId unique;
    check(ncclGetUniqueId(&unique), nullptr, "ncclGetUniqueId");
    NcclId id;
    std::memcpy(id.data(), &unique, sizeof unique);
    return id;
  }
  Comm connect(const NcclId& id, int members, int member) override {
    ncclUniqueId unique;
    std::memcpy(&unique, id.data(), sizeof unique);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    // Kernels of all channels of a rank must find room on the GPU side by side, whatever waits.
    config.maxCTAs = members == 2 ? 4 : 16;
    ncclComm_t comm = nullptr;
    check(ncclCommInitRankConfig(&comm, members, unique, member, &config), comm, "ncclCommInitRankConfig");
    return comm;
  }
  State state(Comm comm) override {
    ncclResult_t result = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(static_cast<ncclComm_t>(comm), &result);
    if (asked != ncclSuccess) result = asked;
    if (result == ncclSuccess) return {};
    if (result == ncclInProgress) return {State::Kind::in_progress, ""};
    std::string text = ncclGetErrorString(result);
    if (const char* last = ncclGetLastError(static_cast<ncclComm_t>(comm)); last && *last)
      text += std::string(": ") + last;
    return {State::Kind::failed, text};
  }
  void send(Comm comm, int to, const std::vector<DeviceBuffer>& buffers, Stream stream) override {
    group(comm, "ncclSend", [&](ncclComm_t c) {
      for (const DeviceBuffer& b : buffers)
        if (b.bytes > 0)
          check(ncclSend(b.data, b.bytes, ncclInt8, to, c, static_cast<cudaStream_t>(stream)), c, "ncclSend");
    });
  }
  void receive(Comm comm, int from, const std::vector<DeviceBuffer>& buffers, Stream stream) override {
    group(comm, "ncclRecv", [&](ncclComm_t c) {
      for (const DeviceBuffer& b : buffers)
        if (b.bytes > 0)
          check(ncclRecv(b.data, b.bytes, ncclInt8, from, c, static_cast<cudaStream_t>(stream)), c, "ncclRecv");
    });
  }
  void collective(Reach reach, Comm comm, int member, void* data, std::size_t count, ElementType type,
                  Stream stream) override {
    const auto c = static_cast<ncclComm_t>(comm);
    const auto s = static_cast<cudaStream_t>(stream);
    const std::size_t width = type == ElementType::float32 ? 4 : 8;
    void* own = static_cast<char*>(data) + static_cast<std::size_t>(member) * count * width;
    switch (reach) {
      case Reach::reduce:
        return check(ncclAllReduce(data, data, count, type_of(type), ncclSum, c, s), c, "ncclAllReduce");
      case Reach::gather:  // in place: the own slice stands where it belongs
        return check(ncclAllGather(own, data, count, type_of(type), c, s), c, "ncclAllGather");
      case Reach::scatter:
        return check(ncclReduceScatter(data, own, count, type_of(type), ncclSum, c, s), c, "ncclReduceScatter");
    }
  }
  DeviceBuffer scratch() override {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    const std::lock_guard lock(mutex_);
    void*& byte = scratch_[device];
    if (!byte) check(cudaMalloc(&byte, 1), "cudaMalloc");
    return {byte, 1};
  }
  void abort(Comm comm) override { ncclCommAbort(static_cast<ncclComm_t>(comm)); }

 private:
  void group(Comm comm, const char* what, const auto& calls) {
    const auto c = static_cast<ncclComm_t>(comm);
    check(ncclGroupStart(), c, "ncclGroupStart");
    try {
      calls(c);
    } catch (...) {
      ncclGroupEnd();
      throw;
    }
    check(ncclGroupEnd(), c, what);
  }

  std::mutex mutex_;
  std::map<int, void*> scratch_;  // by device
};

std::string version_text(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
}

}  // namespace

std::unique_ptr<DeviceCalls> make_cuda_calls() { return std::make_unique<CudaCalls>(); }

NcclVersions nccl_versions() {
  int library = 0;
  check(ncclGetVersion(&library), nullptr, "ncclGetVersion");
  return {version_text(NCCL_VERSION_CODE), version_text(library)};
}

}  // namespace sluice
