// A chain of equal stages as a problem for any system, which plans and places it itself: what
// `sluice schedule` draws and tests compare.
#pragma once

#include "harness/pipeline/system.h"

namespace sluice {

struct UniformChain {
  Plan plan;
  std::vector<DeviceId> devices;  // of every rank
  ScheduleProblem problem;
};

// One layer for every stage the system wants; `stage` is what an op of one stage takes, also where
// one stage is the whole model; with sizes: for one sample. A system that divides words has a slice of them on every
// rank, as long as a stage, behind the last stage. Throws the system's own InputErrors.
UniformChain uniform_chain(const System& system, const Options& options, const Cluster& cluster, int ranks,
                           int microbatches, const StageCost& stage, Seconds latency = Seconds(0),
                           const MicrobatchSizes& sizes = {});

// What an op takes for `samples` samples, in proportion; `one`: for one.
StageCost of_samples(const StageCost& one, std::int64_t samples);

}  // namespace sluice
