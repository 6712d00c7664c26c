// The functions of harness/exec/torch in a build without LibTorch: what needs it throws, so that the commands need not
// know how they were built.
#include <sluice_build.h>

#ifndef SLUICE_HAVE_TORCH

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/exec/co_runs.h"
#include "harness/exec/run_profile.h"
#include "harness/exec/session.h"

namespace sluice {

static constexpr const char* kTorchFree = "this build is torch-free: it has no real executor";

[[noreturn]] static void reject() {
  throw InputError("", kTorchFree,
                   "build it with -DSLUICE_TORCH=ON, or use --clock virtual --costs analytic --no-train (in a sweep: "
                   "\"train\": false)");
}

std::string torch_version() { return "none"; }
std::string cuda_refusal() { return std::string(kTorchFree) + "; build it with -DSLUICE_TORCH=ON"; }
Json describe_cuda() { return nullptr; }
std::unique_ptr<Session> make_session(const SessionSpec&) { reject(); }
CostGraph measure_in_runs(const RunProfileSpec&) { reject(); }
BetweenProcesses measure_between_processes(const RunProfileSpec&, ProcessGroup&) { reject(); }
CoRunSamples measure_co_runs(const CoRunSpec&) { reject(); }
CostGraph measure_costs(const ModelGraph&, std::int64_t, int, const std::string&) { reject(); }

}  // namespace sluice

#endif
