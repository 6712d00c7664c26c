// All functions that need LibTorch, in one table, so that programs which do not train never load LibTorch (1.3 GB).
// `sluice` opens libsluice_training.so, in its own folder or in ../lib/sluice, when one of these functions is first
// called; test programs that train and sluice-cuda have the same object file linked in
// (torch/library/register_training.cpp).
#pragma once

#include <memory>
#include <string>

#include "harness/exec/co_runs.h"
#include "harness/exec/run_profile.h"
#include "harness/exec/session.h"

namespace sluice {

// Its members are the functions of session.h, run_profile.h and co_runs.h with the same names.
struct TrainingLibrary {
  std::unique_ptr<Session> (*make_session)(const SessionSpec&) = nullptr;
  CostGraph (*measure_costs)(const ModelGraph&, std::int64_t micro_batch, int repeats,
                             const std::string& device) = nullptr;
  CostGraph (*measure_in_runs)(const RunProfileSpec&) = nullptr;
  BetweenProcesses (*measure_between_processes)(const RunProfileSpec&, ProcessGroup&) = nullptr;
  CoRunSamples (*measure_co_runs)(const CoRunSpec&) = nullptr;
  std::string (*cuda_rejection)() = nullptr;
  Json (*describe_cuda)() = nullptr;
  bool operator==(const TrainingLibrary&) const = default;
};

// Called before main() or while the library is opened, and by tests that replace a GPU. Returns the previous table; an
// empty one means that there is none.
TrainingLibrary register_training_library(const TrainingLibrary& library);

// The path of the library: ../lib/sluice of the program's folder, if it exists, or else that folder.
std::string training_library_path();

}  // namespace sluice
