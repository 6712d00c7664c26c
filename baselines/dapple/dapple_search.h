// DAPPLE's planner (Fan et al., PPoPP 2021, section 4), from memory: which layers and devices make the first
// stage, then the next, ...; of every state (layers planned, devices used on every machine) the
// plan is kept whose latency, with all the rest as one last stage, is least. Devices for a stage
// come from three policies, so that the sets to try stay few:
//   fresh    machines not used yet first: keeps a stage inside a machine
//   append   machines partly used first
//   scatter  one from each machine in turn: for stages with small weights
// A stage on r devices splits every micro-batch into r parts.
#pragma once

#include <map>
#include <vector>

#include "baselines/dapple/latency_model.h"
#include "harness/model/cluster.h"
#include "harness/plan/layer_groups.h"
#include "harness/plan/search.h"

namespace sluice {

enum class DapplePolicy { fresh, append, scatter };

struct DappleOptions {
  int devices = 1;
  int microbatches = 1;                                // of one iteration
  int max_replicas = std::numeric_limits<int>::max();  // devices of a stage
  std::vector<DapplePolicy> policies = {DapplePolicy::fresh, DapplePolicy::append, DapplePolicy::scatter};
  SearchLimits limits = {};
};

struct DappleStage {
  int first = 0, last = 0;  // groups [first, last)
  std::vector<DeviceId> devices;
};

struct DapplePlan {
  std::vector<DappleStage> stages;
  PipelineLatency latency;
};

struct DappleResult {
  DapplePlan best;                      // without stages: nothing fits
  std::map<int, DapplePlan> by_stages;  // of every number of stages the best that was come across
  std::int64_t states = 0;
  bool complete = true;
};

DappleResult dapple_search(const LayerGroupGraph& graph, const Cluster& cluster, const DappleOptions& options);

// The interleaved list of computation and network stages of a plan.
std::vector<LatencyStage> latency_stages(const LayerGroupGraph& graph, const Cluster& cluster, int devices,
                                         const std::vector<DappleStage>& stages);

}  // namespace sluice
