// Measures co-runs (pipeline/co_runs.h) on this machine.
#pragma once

#include <optional>
#include <vector>

#include "harness/exec/session.h"
#include "harness/pipeline/co_runs.h"

namespace sluice {

// Cores for co-runs on this machine: 2, 1, or 0 if threads cannot be bound to cores.
int co_run_cores();

struct CoRunSpec {
  ModelGraph model;
  std::int64_t micro_batch = 1;  // samples
  OptimizerSpec optimizer;
  std::optional<DataFeed> feed;  // none: a synthetic batch
  std::vector<CoRunLoad> loads;
  int rounds = 3;        // over all loads, alternating with the model alone
  double seconds = 0.3;  // approximately, per load and round
};

// The whole model on one rank in its thread of training. Throws InputError: fewer cores than a load needs.
CoRunSamples measure_co_runs(const CoRunSpec& spec);

}  // namespace sluice
