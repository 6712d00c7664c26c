// The parts of the CUDA backend (described in harness/exec/torch/session/device_backend.h), which cuda_backend.cpp
// registers.
#pragma once

#include "harness/exec/torch/session/device_backend.h"

namespace sluice {

class Json;

std::string rejection_of_this_machine();
Json describe_this_machine();
std::vector<std::unique_ptr<RankDevice>> make_cuda_devices(std::size_t ranks, ProcessGroup* processes);
std::unique_ptr<DeviceTransports> make_cuda_nccl_transports(std::vector<RankDevice*> devices, ProcessGroup* processes);

}  // namespace sluice
