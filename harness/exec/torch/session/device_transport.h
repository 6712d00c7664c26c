// Transports for ranks on GPUs. Between threads, messages are passed by handle with an event, and the collectives add
// on the devices. For ranks with one GPU each there is NCCL (harness/exec/nccl).
#pragma once

#include <memory>
#include <vector>

#include "harness/exec/torch/stage/rank_device.h"
#include "harness/exec/transport.h"
#include "harness/program/program.h"

namespace sluice {

// devices: of all ranks, in their order. The collectives use memory of the member's device and add in the order of the
// replicas, like the transport between threads on the CPU. They return when the work is queued; later work of the ranks
// runs after it.
std::unique_ptr<Transport> make_device_thread_transport(const Program& program, std::vector<RankDevice*> devices);

// Makes one transport per run, and keeps between runs the parts that take long to make.
class DeviceTransports {
 public:
  virtual ~DeviceTransports() = default;
  virtual std::unique_ptr<Transport> make(const Program& program) = 0;
};

}  // namespace sluice
