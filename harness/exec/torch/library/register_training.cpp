// Linked as an object file into libsluice_training.so, sluice-cuda and the test programs that train: as it is loaded,
// it says what LibTorch does (harness/exec/training_library.h).
#include "harness/base/json.h"
#include "harness/exec/torch/session/libtorch.h"
#include "harness/exec/training_library.h"

namespace sluice {

[[maybe_unused]] static const bool is_registered = [] {
  register_training_library({.make_session = libtorch::make_session,
                             .measure_costs = libtorch::measure_costs,
                             .measure_in_runs = libtorch::measure_in_runs,
                             .measure_between_processes = libtorch::measure_between_processes,
                             .measure_co_runs = libtorch::measure_co_runs,
                             .cuda_rejection = libtorch::cuda_rejection,
                             .describe_cuda = libtorch::describe_cuda});
  return true;
}();

}  // namespace sluice
