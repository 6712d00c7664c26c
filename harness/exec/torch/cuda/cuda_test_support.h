// Messages of floats in a GPU's memory, for tests of NCCL.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "harness/exec/nccl/nccl_transport.h"

namespace sluice {

inline int gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// Memory of the calling thread's device.
struct DeviceFloats {
  float* data = nullptr;
  std::size_t count;
  explicit DeviceFloats(const std::vector<float>& values) : count(values.size()) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data), 4 * count), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data, values.data(), 4 * count, cudaMemcpyHostToDevice), cudaSuccess);
    // The copy may return before it has arrived, and NCCL's streams do not wait for it.
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  }
  ~DeviceFloats() { cudaFree(data); }
  DeviceFloats(const DeviceFloats&) = delete;
  std::vector<float> values() const {
    std::vector<float> host(count);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(host.data(), data, 4 * count, cudaMemcpyDeviceToHost), cudaSuccess);
    return host;
  }
};

// A message of one array. The receiver's room is allocated, so it needs the calling thread's device.
class FloatBuffers : public MessageBuffers {
 public:
  std::vector<std::int64_t> header(const Message& message) override {
    return {static_cast<std::int64_t>(of(message).count)};
  }
  Message room_for(std::span<const std::int64_t> header, DeviceCalls::Stream) override {
    return {std::make_shared<DeviceFloats>(std::vector<float>(static_cast<std::size_t>(header[0]), -1)), {}};
  }
  std::vector<DeviceBuffer> buffers(const Message& message) override {
    return {{of(message).data, 4 * of(message).count}};
  }
  static DeviceFloats& of(const Message& message) { return *static_cast<DeviceFloats*>(message.payload.get()); }
};

}  // namespace sluice
