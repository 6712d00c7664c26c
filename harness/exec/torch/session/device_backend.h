// DeviceBackend: runs ranks on GPUs. The object files of harness/exec/torch/cuda register one when the program starts,
// so `sluice-cuda` has one and `sluice` has none; tests register one whose devices are the CPU.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/exec/process_group.h"
#include "harness/exec/torch/session/device_transport.h"
#include "harness/exec/torch/stage/rank_device.h"

namespace sluice {

class Json;

struct DeviceBackend {
  // Why ranks cannot run on GPUs of this machine; "" if they can.
  std::function<std::string()> rejection;
  // See describe_cuda() in harness/exec/session.h.
  std::function<Json()> describe;
  // By rank. With a process group ranks are processes: only this process's rank gets a device, and the processes of one
  // machine take its GPUs in turn. Throws InputError: the machine has no GPU. Also makes the arithmetic as close to the
  // CPU's as possible: no TF32, cuDNN's deterministic algorithms.
  std::function<std::vector<std::unique_ptr<RankDevice>>(std::size_t ranks, ProcessGroup* processes)> make_devices;
  // NCCL within this process, or between the members of a process group, over which it is bootstrapped: then only this
  // process's rank has a device. Throws InputError: two ranks share one GPU.
  std::function<std::unique_ptr<DeviceTransports>(std::vector<RankDevice*> devices, ProcessGroup* processes)>
      make_nccl_transports;
};

// Replaces the one registered before. Called before main(), or by a test.
void register_device_backend(DeviceBackend backend);
// The registered one; null in a program without CUDA.
const DeviceBackend* device_backend();

// What the registered backend makes. Throws InputError in a program without one.
std::vector<std::unique_ptr<RankDevice>> make_rank_devices(std::size_t ranks, ProcessGroup* processes = nullptr);
std::unique_ptr<DeviceTransports> make_nccl_transports(std::vector<RankDevice*> devices,
                                                       ProcessGroup* processes = nullptr);

}  // namespace sluice
