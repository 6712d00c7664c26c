#include "harness/exec/torch/session/device_backend.h"

#include <optional>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/exec/torch/session/libtorch.h"

namespace sluice {

// A local static: it exists before the first call, whichever file's initialisers run first.
static std::optional<DeviceBackend>& registered() {
  static std::optional<DeviceBackend> backend;
  return backend;
}

void register_device_backend(DeviceBackend backend) { registered() = std::move(backend); }

const DeviceBackend* device_backend() {
  const std::optional<DeviceBackend>& backend = registered();
  return backend ? &*backend : nullptr;
}

std::string libtorch::cuda_rejection() {
  if (const DeviceBackend* backend = device_backend()) return backend->rejection();
  return "this program has no CUDA; build the one that has with -DSLUICE_CUDA=ON (harness/exec/README.md: GPUs)";
}

Json libtorch::describe_cuda() {
  const DeviceBackend* backend = device_backend();
  return backend ? backend->describe() : nullptr;
}

std::vector<std::unique_ptr<RankDevice>> make_rank_devices(std::size_t ranks, ProcessGroup* processes) {
  const DeviceBackend* backend = device_backend();
  if (!backend) throw InputError("device", libtorch::cuda_rejection());
  return backend->make_devices(ranks, processes);
}

std::unique_ptr<DeviceTransports> make_nccl_transports(std::vector<RankDevice*> devices, ProcessGroup* processes) {
  const DeviceBackend* backend = device_backend();
  if (!backend) throw InputError("transport", libtorch::cuda_rejection());
  return backend->make_nccl_transports(std::move(devices), processes);
}

}  // namespace sluice
