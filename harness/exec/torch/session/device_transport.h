// Transports for ranks on GPUs. Threads: messages are passed by handle with an event, and the
// collectives add on the devices. NCCL: exec/nccl, for ranks with a GPU each.
#pragma once

#include <memory>
#include <vector>

#include "harness/exec/process_group.h"
#include "harness/exec/torch/stage/rank_device.h"
#include "harness/exec/transport.h"
#include "harness/program/program.h"

namespace sluice {

// devices: of all ranks, in their order. all_reduce and the others take memory of the member's
// device and add in the order of the replicas, as the threads' transport on the CPU does; they
// return when the work is queued, and what the ranks queue afterwards comes behind it.
std::unique_ptr<Transport> make_device_thread_transport(const Program& program, std::vector<RankDevice*> devices);

// Makes a transport a run and keeps what is dear to make between runs.
class DeviceTransports {
 public:
  virtual ~DeviceTransports() = default;
  virtual std::unique_ptr<Transport> make(const Program& program) = 0;
};
// NCCL within this process, or between those of a process group, over which it is bootstrapped: then only
// this process's rank has a device. Throws InputError: no CUDA in this build, two ranks on one GPU.
std::unique_ptr<DeviceTransports> make_nccl_transports(std::vector<RankDevice*> devices,
                                                       ProcessGroup* processes = nullptr);

}  // namespace sluice
