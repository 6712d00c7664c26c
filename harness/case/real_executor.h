// The executor that trains on real ranks, in every build: one without LibTorch refuses each call with the same error,
// so that the commands need not know how they were built.
#pragma once

#include <memory>
#include <string>

#include "harness/case/choices.h"
#include "harness/exec/co_runs.h"
#include "harness/exec/run_profile.h"
#include "harness/exec/session.h"
#include "harness/model/cost_graph.h"

namespace sluice::real_executor {

std::string torch_version();             // "none" in a build without LibTorch
std::string refusal(DeviceKind device);  // why ranks cannot run on it here, or ""
Json gpus();                             // as describe_cuda() (exec/session.h); null in a program without CUDA

// These throw InputError in a build without LibTorch.
std::unique_ptr<Session> session(const SessionSpec& spec);
CostGraph measure_in_runs(const RunProfileSpec& spec);
BetweenProcesses measure_between_processes(const RunProfileSpec& spec, ProcessGroup& processes);
CoRunSamples measure_co_runs(const CoRunSpec& spec);
CostGraph measure_costs(const ModelGraph& model, std::int64_t micro_batch, DeviceKind device = DeviceKind::cpu);

}  // namespace sluice::real_executor
