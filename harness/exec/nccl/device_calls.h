// The few calls of CUDA and NCCL that the NCCL transport makes. torch/cuda/cuda_calls.cpp forwards them;
// fake_devices.h, for tests, runs them on threads, with NCCL's rendezvous, so that the protocol is tested without a
// GPU.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "harness/exec/transport.h"

namespace sluice {

using NcclId = std::array<char, 128>;  // identifies a communicator among its members (ncclUniqueId)

struct DeviceBuffer {
  void* data = nullptr;
  std::size_t bytes = 0;
};

enum class Reach { gather, reduce, scatter };  // all-gather, all-reduce, reduce-scatter

class DeviceCalls {
 public:
  using Stream = void*;  // cudaStream_t
  using Comm = void*;    // ncclComm_t
  // cudaEvent_t behind a shared pointer; the same that Message::ready holds.
  using Event = std::shared_ptr<void>;
  struct State {
    enum class Kind { ready, in_progress, failed } kind = Kind::ready;
    std::string error;
  };

  virtual ~DeviceCalls() = default;
  virtual void use_device(int device) = 0;  // by this thread from now on
  virtual Stream make_stream() = 0;         // on the thread's device
  virtual void drop_stream(Stream stream) = 0;
  virtual Event record(Stream stream) = 0;                   // after the work given to the stream so far
  virtual void wait(Stream stream, const Event& event) = 0;  // blocks the stream, not the host
  virtual bool passed(const Event& event) = 0;

  // NCCL, with communicators that do not block the host: a call is complete when state() says ready; until then no
  // other call may use the communicator.
  virtual NcclId make_id() = 0;
  virtual Comm connect(const NcclId& id, int members, int member) = 0;
  virtual State state(Comm comm) = 0;
  // All parts of a message in one group.
  virtual void send(Comm comm, int to, const std::vector<DeviceBuffer>& buffers, Stream stream) = 0;
  virtual void receive(Comm comm, int from, const std::vector<DeviceBuffer>& buffers, Stream stream) = 0;
  // data: as in Transport::all_reduce, all_gather and reduce_scatter.
  virtual void collective(Reach reach, Comm comm, int member, void* data, std::size_t count, ElementType type,
                          Stream stream) = 0;
  virtual DeviceBuffer scratch() = 0;  // one byte of the thread's device, never freed
  // Stops the communicator on this rank at once, and frees it. Thread-safe.
  virtual void abort(Comm comm) = 0;
};

std::unique_ptr<DeviceCalls> make_cuda_calls();  // cuda_calls.cpp: in builds with SLUICE_CUDA

}  // namespace sluice
