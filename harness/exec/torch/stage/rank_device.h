// RankDevice: a rank's GPU, the stream on which the rank computes, and events between ranks. A rank without a device
// computes on the CPU, where an op is done when its call returns.
//
// Ranks are threads. With at least one GPU per rank, each rank has its own; otherwise neighbours share one, each with
// its own stream, so every system runs with real kernels on a single GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "harness/exec/worker.h"

namespace sluice {

class RankDevice : public DeviceClock {
 public:
  // A cudaEvent_t, as in Message::ready.
  using Event = std::shared_ptr<void>;

  virtual at::Device device() const = 0;
  virtual void* stream() const = 0;             // cudaStream_t
  virtual void enter() = 0;                     // makes device and stream those of the calling thread
  virtual void synchronize() = 0;               // the host waits for all streams of the device
  virtual void stay_busy() = 0;                 // keeps the stream busy for a millisecond or more; the host continues
  virtual Event record() = 0;                   // after the work given to this rank's stream so far
  virtual void wait(const Event& event) = 0;    // blocks the stream; an empty event is no wait
  virtual bool passed(const Event& event) = 0;  // for the host
  virtual void wait_on_host(const Event& event) = 0;
  // Queued copies: from memory of the host that must not be written afterwards, and into memory of the host that has
  // the values once an event recorded after the copy has passed.
  virtual at::Tensor from_host(const at::Tensor& tensor) = 0;
  virtual at::Tensor to_host(const at::Tensor& tensor) = 0;
  // Copies on a second stream of the rank, one after the other, each after the work given to the rank's stream so far.
  // The device's tensor must stay, unchanged, until the returned event has passed; the one on the host is from
  // host_memory(), and may be dropped.
  virtual at::Tensor host_memory(std::int64_t bytes) = 0;
  virtual Event copy_beside(at::Tensor& to, const at::Tensor& from) = 0;
  // A tensor made on another stream is used on this one: its memory must not be reused before that use has ended, even
  // if the tensor is dropped.
  virtual void used_here(const at::Tensor& tensor) = 0;
};

// The device of rank `rank` of `ranks` on a machine with `devices` devices: as even as possible, neighbours together.
int device_of_rank(std::size_t rank, std::size_t ranks, int devices);

}  // namespace sluice
