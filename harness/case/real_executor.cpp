#include "harness/case/real_executor.h"

#include <sluice_build.h>

#include <nlohmann/json.hpp>

#include "harness/base/error.h"

namespace sluice::real_executor {

#ifdef SLUICE_HAVE_TORCH

std::string torch_version() { return sluice::torch_version(); }
std::string refusal(DeviceKind device) { return device == DeviceKind::cuda ? cuda_refusal() : ""; }
nlohmann::json gpus() { return describe_cuda(); }
std::unique_ptr<Session> session(const SessionSpec& spec) { return make_session(spec); }
CostGraph measure_costs(const ModelGraph& model, std::int64_t micro_batch, DeviceKind device) {
  constexpr int repeats = 7;
  return sluice::measure_costs(model, micro_batch, repeats, choice_name(device));
}

#else

[[noreturn]] static void refuse() {
  throw InputError("", "this build has no real executor",
                   "build it with -DSLUICE_TORCH=ON, or use --clock virtual --costs analytic with "
                   "\"train\": false");
}
std::string torch_version() { return "none"; }
std::string refusal(DeviceKind device) {
  return device == DeviceKind::cuda ? "this build has no real executor; build it with -DSLUICE_TORCH=ON" : "";
}
nlohmann::json gpus() { return nullptr; }
std::unique_ptr<Session> session(const SessionSpec&) { refuse(); }
CostGraph measure_costs(const ModelGraph&, std::int64_t, DeviceKind) { refuse(); }

#endif

}  // namespace sluice::real_executor
