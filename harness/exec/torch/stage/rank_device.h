// RankDevice: a rank's GPU, the stream that the rank computes on, and events between ranks. A rank without a device
// computes on the CPU, where an op is done when its call returns.
//
// Ranks are threads. With as many GPUs as ranks each has its own; otherwise neighbours share one, each on a stream of
// its own, so that every system runs with real kernels on a single GPU.
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
  virtual void stay_busy() = 0;                 // the stream, for a millisecond or more; the host goes on
  virtual Event record() = 0;                   // behind what this rank's stream has been given
  virtual void wait(const Event& event) = 0;    // the stream does; an empty event is no wait
  virtual bool passed(const Event& event) = 0;  // asked by the host
  virtual void wait_on_host(const Event& event) = 0;
  // Copies that are queued: from memory of the host that must not be written afterwards, and into memory of the host
  // that holds the values once an event recorded behind the copy has passed.
  virtual at::Tensor from_host(const at::Tensor& tensor) = 0;
  virtual at::Tensor to_host(const at::Tensor& tensor) = 0;
  // Copies on a second stream of the rank, one after the other, each behind what the rank's stream
  // has been given so far. The device's tensor must stay, and neither be written, until the event that is returned has
  // passed; the one on the host is from host_memory(), and may be dropped.
  virtual at::Tensor host_memory(std::int64_t bytes) = 0;
  virtual Event copy_beside(at::Tensor& to, const at::Tensor& from) = 0;
  // A tensor made on another stream is used on this one: its memory must not be reused before that use is over, whoever
  // drops the tensor.
  virtual void used_here(const at::Tensor& tensor) = 0;
};

// The device of rank `rank` of `ranks` on a machine with `devices` devices; as even as can be, neighbours together.
int device_of_rank(std::size_t rank, std::size_t ranks, int devices);

}  // namespace sluice
