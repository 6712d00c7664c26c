#include "harness/exec/torch/stage/rank_device.h"

#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/exec/session.h"
#include "harness/exec/torch/session/device_transport.h"

namespace sluice {

int device_of_rank(std::size_t rank, std::size_t ranks, int devices) {
  const auto n = static_cast<std::size_t>(devices);
  return static_cast<int>(n >= ranks ? rank : rank * n / ranks);
}

// In a program with CUDA the files cuda_*.cpp define these: the linker prefers theirs.
[[gnu::weak]] std::string cuda_refusal() {
  return "this program has no CUDA; build the one that has with -DSLUICE_CUDA=ON (README: GPUs)";
}
[[gnu::weak]] nlohmann::json describe_cuda() { return nullptr; }

[[gnu::weak]] std::vector<std::unique_ptr<RankDevice>> make_cuda_devices(std::size_t, ProcessGroup*) {
  throw InputError("device", cuda_refusal());
}
[[gnu::weak]] std::unique_ptr<DeviceTransports> make_nccl_transports(std::vector<RankDevice*>, ProcessGroup*) {
  throw InputError("transport", cuda_refusal());
}

}  // namespace sluice
