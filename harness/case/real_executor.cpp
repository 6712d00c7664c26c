#include "harness/case/real_executor.h"

#include <sluice_build.h>

#include "harness/base/error.h"
#include "harness/base/json.h"

namespace sluice::real_executor {

#ifdef SLUICE_HAVE_TORCH

std::string torch_version() { return sluice::torch_version(); }
std::string refusal(DeviceKind device) { return device == DeviceKind::cuda ? cuda_refusal() : ""; }
Json gpus() { return describe_cuda(); }
std::unique_ptr<Session> session(const SessionSpec& spec) { return make_session(spec); }
CostGraph measure_in_runs(const RunProfileSpec& spec) { return sluice::measure_in_runs(spec); }
BetweenProcesses measure_between_processes(const RunProfileSpec& spec, ProcessGroup& processes) {
  return sluice::measure_between_processes(spec, processes);
}
CoRunSamples measure_co_runs(const CoRunSpec& spec) { return sluice::measure_co_runs(spec); }
CostGraph measure_costs(const ModelGraph& model, std::int64_t micro_batch, DeviceKind device) {
  constexpr int repeats = 7;
  return sluice::measure_costs(model, micro_batch, repeats, choice_name(device));
}

#else

[[noreturn]] static void refuse() {
  throw InputError("", "this build is torch-free: it has no real executor",
                   "build it with -DSLUICE_TORCH=ON, or use --clock virtual --costs analytic --no-train (in a sweep: "
                   "\"train\": false)");
}
std::string torch_version() { return "none"; }
std::string refusal(DeviceKind device) {
  if (device != DeviceKind::cuda) return "";
  return "this build is torch-free: it has no real executor; build it with -DSLUICE_TORCH=ON";
}
Json gpus() { return nullptr; }
std::unique_ptr<Session> session(const SessionSpec&) { refuse(); }
CostGraph measure_in_runs(const RunProfileSpec&) { refuse(); }
BetweenProcesses measure_between_processes(const RunProfileSpec&, ProcessGroup&) { refuse(); }
CoRunSamples measure_co_runs(const CoRunSpec&) { refuse(); }
CostGraph measure_costs(const ModelGraph&, std::int64_t, DeviceKind) { refuse(); }

#endif

}  // namespace sluice::real_executor
