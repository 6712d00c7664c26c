// Transports for ranks on GPUs. Between threads, messages are passed by handle with an event, and the collectives add
// on the devices. For ranks with a GPU each there is NCCL (harness/exec/nccl).
#pragma once

#include <memory>
#include <vector>

#include "harness/exec/torch/stage/rank_device.h"
#include "harness/exec/transport.h"
#include "harness/program/program.h"

namespace sluice {

// devices: of all ranks, in their order. The collectives take memory of the member's device and add in the order of the
// replicas, as the transport between threads on the CPU does; they return when the work is queued, and what the ranks
// queue afterwards comes behind it.
std::unique_ptr<Transport> make_device_thread_transport(const Program& program, std::vector<RankDevice*> devices);

// Makes one transport per run, and keeps between runs what takes long to make.
class DeviceTransports {
 public:
  virtual ~DeviceTransports() = default;
  virtual std::unique_ptr<Transport> make(const Program& program) = 0;
};

}  // namespace sluice
