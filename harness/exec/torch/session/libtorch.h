// The LibTorch functions of the table TrainingLibrary (harness/exec/training_library.h).
#pragma once

#include <memory>
#include <string>

#include "harness/exec/co_runs.h"
#include "harness/exec/run_profile.h"
#include "harness/exec/session.h"

namespace sluice::libtorch {

std::unique_ptr<Session> make_session(const SessionSpec& spec);
CostGraph measure_costs(const ModelGraph& model, std::int64_t micro_batch, int repeats, const std::string& device);
CostGraph measure_in_runs(const RunProfileSpec& spec);
BetweenProcesses measure_between_processes(const RunProfileSpec& spec, ProcessGroup& processes);
CoRunSamples measure_co_runs(const CoRunSpec& spec);
std::string cuda_rejection();
Json describe_cuda();

}  // namespace sluice::libtorch
