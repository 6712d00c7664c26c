// Registers the CUDA backend as the program starts. Linked as an object file, so that no linker leaves it out.
#include "harness/exec/torch/cuda/cuda_backend.h"

#include "harness/base/json.h"

namespace sluice {

static const bool registered = [] {
  register_device_backend({.rejection = rejection_of_this_machine,
                           .describe = describe_this_machine,
                           .make_devices = make_cuda_devices,
                           .make_nccl_transports = make_cuda_nccl_transports});
  return true;
}();

}  // namespace sluice
