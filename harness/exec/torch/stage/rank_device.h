// A rank's GPU: the device, the stream the rank computes on, events between ranks. Ranks without
// one compute on the CPU, where an op is done when its call returns.
//
// Ranks are threads. With as many GPUs as ranks each has its own; otherwise neighbours share one,
// each on a stream of its own, so that every system runs with real kernels on a single GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "harness/exec/executor.h"
#include "harness/exec/process_group.h"

namespace sluice {

class RankDevice : public DeviceClock {
 public:
  // A cudaEvent_t, as in Message::ready.
  using Event = std::shared_ptr<void>;

  virtual at::Device device() const = 0;
  virtual void* stream() const = 0;             // cudaStream_t
  virtual void enter() = 0;                     // makes device and stream those of the calling thread
  virtual void synchronize() = 0;               // the host waits for all streams of the device
  virtual Event record() = 0;                   // behind what this rank's stream has been given
  virtual void wait(const Event& event) = 0;    // the stream does; an empty event is no wait
  virtual bool passed(const Event& event) = 0;  // asked by the host
  virtual void wait_on_host(const Event& event) = 0;
  // PipelineReplicas that are queued, from memory of the host that must not be written afterwards, and into
  // such that holds the values once an event recorded behind has passed.
  virtual at::Tensor from_host(const at::Tensor& tensor) = 0;
  virtual at::Tensor to_host(const at::Tensor& tensor) = 0;
  // A tensor made on another stream is used on this one: its memory must not be given away before
  // that use is over, whoever drops it.
  virtual void used_here(const at::Tensor& tensor) = 0;
};

// By rank. process group: ranks are processes, and only this one's has a device; processes of one machine
// take its GPUs in turn. Throws InputError: this build has no CUDA, or the machine no GPU. Also
// makes the arithmetic that of the CPU as far as it can be: no TF32, cuDNN's deterministic
// algorithms.
std::vector<std::unique_ptr<RankDevice>> make_cuda_devices(std::size_t ranks, ProcessGroup* processes = nullptr);

// Rank r's device of so many; as even as can be, neighbours together.
int device_of_rank(std::size_t rank, std::size_t ranks, int devices);

}  // namespace sluice
