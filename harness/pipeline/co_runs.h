// Co-runs: how many times as long the layers of a model take under a load, on the core of their rank or on another one.
// `sluice profile --co-run` asks the system that learns from them (System::co_run_file), and measures
// what that asks for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/model/cost_graph.h"
#include "harness/model/interference.h"

namespace sluice {

struct CoRunLoad {
  Resource resource = Resource::compute;  // no link
  double slowdown = 1;   // the threads take load_share() of their core for this slowdown (exec/disturbance.h)
  bool own_core = true;  // false: on another core than the rank's
};

// Seconds of F, I and W of one micro-batch, means over all samples: a share of a core is missed in bursts, which
// medians do not see.
struct CoRunSamples {
  std::vector<double> alone;                   // per layer
  std::vector<std::vector<double>> contended;  // per load and layer
};

struct CoRunProblem {
  const CostGraph& costs;  // of the workload, with the micro-batch that is measured; seconds by formula
  int cores;               // that loads can be on: 1, the rank's own; 2, also another one
  std::string published;   // file of slowdowns to learn from as well; "": none
  std::function<CoRunSamples(const std::vector<CoRunLoad>&)> measure;
};

struct CoRunFile {
  Json json;         // an object, without what names the workload, the machine and the build
  std::string told;  // what it holds, in lines for people
};

}  // namespace sluice
