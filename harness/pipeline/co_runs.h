// Co-runs: the slowdown of a model's layers under a load, on the core of their rank or on another one. `sluice profile
// --co-run` asks the system that learns from co-runs which loads it needs (System::co_run_file), and measures these.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/model/cost_graph.h"
#include "harness/model/interference.h"

namespace sluice {

struct CoRunLoad {
  Resource resource = Resource::compute;  // not link
  double slowdown = 1;   // the threads use load_share() of their core for this slowdown (exec/disturbance.h)
  bool own_core = true;  // false: on another core than the rank's
};

// Seconds of F, I and W of one micro-batch, means over all samples: a rank loses its share of a core in bursts, which
// medians do not show.
struct CoRunSamples {
  std::vector<double> alone;                   // per layer
  std::vector<std::vector<double>> contended;  // per load and layer
};

struct CoRunProblem {
  const CostGraph& costs;  // of the workload, with the micro-batch that is measured; seconds by formula
  int cores;               // where loads can run: 1: the rank's own core; 2: also another one
  std::string published;   // file of further slowdowns to learn from; "": none
  std::function<CoRunSamples(const std::vector<CoRunLoad>&)> measure;
};

struct CoRunFile {
  Json json;         // an object, without workload, machine and build
  std::string told;  // summary for the terminal, in lines
};

}  // namespace sluice
