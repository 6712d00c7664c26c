// A chain of equal stages as a problem for any system, which plans and places it: `sluice schedule` draws it, and tests
// compare it.
#pragma once

#include "harness/pipeline/system.h"

namespace sluice {

struct UniformChain {
  Plan plan;
  std::vector<DeviceId> devices;  // of every rank
  ScheduleProblem problem;
};

// One layer for every stage of the system. `stage`: the cost of an op of one stage, also if one stage is the whole
// model; with sizes: for one sample. A system with vocabulary slices also has one on every rank, with the cost of a
// stage, after the last stage. Throws the system's own InputErrors.
UniformChain uniform_chain(const System& system, const Options& options, const Cluster& cluster, int ranks,
                           int microbatches, const StageCost& stage, Seconds latency = Seconds(0),
                           const MicrobatchSizes& sizes = {});

// The cost of an op for `samples` samples, in proportion; `one`: for one.
StageCost of_samples(const StageCost& one, std::int64_t samples);

}  // namespace sluice
