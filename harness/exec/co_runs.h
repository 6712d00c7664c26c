// Co-runs: how many times as long the layers of a model take under a load, on the core of their rank or on another
// one. What the forest of slowdowns (plan/forest.h) learns from.
#pragma once

#include <optional>
#include <vector>

#include "harness/exec/session.h"
#include "harness/model/interference.h"

namespace sluice {

struct CoRunLoad {
  Resource resource = Resource::compute;  // no link
  double slowdown = 1;   // the threads take load_share() of their core for this slowdown (disturbance.h)
  bool own_core = true;  // false: on another core than the rank's
};

// Every resource at several shares of a core; on the rank's own core and, given two cores, on another one.
std::vector<CoRunLoad> co_run_loads(int cores);
// Cores that co-runs can use here: 2, 1, or 0 where threads cannot be put on cores.
int co_run_cores();

struct CoRunSpec {
  ModelGraph model;
  std::int64_t micro_batch = 1;  // samples
  OptimizerSpec optimizer;
  std::optional<DataFeed> feed;  // none: a synthetic batch
  std::vector<CoRunLoad> loads;
  int rounds = 3;        // over all loads, in turn with the model alone
  double seconds = 0.3;  // about, of a load in a round
};

// Seconds of F, I and W of one micro-batch, means over all samples: a share of a core is missed in bursts, which
// medians do not see.
struct CoRunSamples {
  std::vector<double> alone;                   // per layer
  std::vector<std::vector<double>> contended;  // per load and layer
};

// The whole model on one rank in its thread of training. Throws InputError: fewer cores than a load needs.
CoRunSamples measure_co_runs(const CoRunSpec& spec);

}  // namespace sluice
