// Asteroid's planner (Ye et al., MobiCom 2024; asteroid.cpp names the sources): stages of consecutive layers, each on a
// group of unequal devices, that minimize the seconds of a round, which is the M micro-batches of an update.
//
// A pipeline of P stages has 2 P - 1 steps: its stages, and the messages between them. F_s and B_s are the seconds of
// step s for a micro-batch, A_s those of a stage's all-reduce. A step waits (W), executes (E) and reduces (A):
//
//   W_s = sum over i < s of F_i
//   E_s = M (F_d + B_d) + sum over i < d of (F_i + B_i) - sum over i < s of (F_i + B_i)
//   round = max over s of (W_s + E_s + A_s)
//
// d is the dominant step, which has no bubble. Here it is the step with the largest M (F_d + B_d) + sum over i < d of
// (F_i + B_i): with any other, some step s would have E_s < M (F_s + B_s). Then
//
//   round = max over s of (M (F_s + B_s) + sum over i < s of (F_i + B_i)) + max over s of (A_s - sum over i < s of B_i)
//
// and both maxima follow from those of the pipeline without its first step (prepend()).
//
// Devices are sorted by memory, largest first, because the first stages hold more micro-batches than the others. For
// the last layers on the last devices, and each number of stages, the dynamic program keeps the pipeline with the
// shortest round, and prepends stages to it. It can miss the best pipeline, whose last stages need not be the best ones
// by themselves.
//
// A stage on r devices, the slowest of which takes F, takes F ceil(M / r) / M, since no device runs more than
// ceil(M / r) micro-batches. Of a group, the r devices that are fastest on the stage's layers share it, where r
// minimizes F + B and each device's memory holds its micro-batches in flight; the others are idle. (The paper gives
// each device a share of every micro-batch, by its speed and memory.)
//
// The test plans 300 random chains of 3 to 5 layers on 2 to 4 unequal devices. 293 have a pipeline that fits, and the
// search finds one for 286. For 269 it is the best pipeline with devices in order of memory; the others take up to 39 %
// longer. Of the pipelines with any device in any stage, it is the best for 133; the others take up to twice as long.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <vector>

#include "harness/model/cluster.h"
#include "harness/model/cost_graph.h"
#include "harness/plan/layer_groups.h"
#include "harness/plan/search.h"

namespace sluice {

// Seconds of a stage or of a message between two stages.
struct AsteroidStep {
  double forward = 0, backward = 0;  // of one micro-batch
  double all_reduce = 0;             // once a round; 0 for a message
};

// The two maxima that add up to a round, of all steps of a pipeline or of its last ones, seconds.
struct RoundSeconds {
  double compute = 0, reduce = 0;
  double sum() const { return compute + reduce; }
};
RoundSeconds prepend(const AsteroidStep& step, const RoundSeconds& later, int microbatches);

// Micro-batches in flight on each device of a stage: one for every device and every message from this stage on, divided
// among the stage's devices, rounded up. Without replicas, on stage p of P: 2 (P - p) - 1.
inline int asteroid_in_flight(int replicas, int replicas_after, int messages_after) {
  return (2 * replicas + replicas_after + messages_after - 1) / replicas;
}

struct AsteroidStage {
  int first = 0, last = 0;  // layer groups [first, last)
  std::vector<DeviceId> devices;
};

struct AsteroidPlan {
  std::vector<AsteroidStage> stages;
  double seconds = 0;  // of a round
};

// Bytes that a device of a stage holds.
struct StageBytes {
  double always = 0, per_micro_batch = 0;
};

struct AsteroidOptions {
  int devices = 1;                                     // the first ones of the cluster
  int microbatches = 1;                                // of a round
  int max_replicas = std::numeric_limits<int>::max();  // devices of a stage
  bool messages_in_flight = true;                      // false: asteroid_in_flight() counts the devices alone
  // What a device holds of layer groups [first, last); none: nothing.
  std::function<StageBytes(int first, int last)> bytes = {};
  SearchLimits limits = {};
};

struct AsteroidResult {
  std::map<int, AsteroidPlan> by_stages;  // the best that was found for each number of stages; empty: nothing fits
  std::int64_t states = 0;                // pipelines that were timed
  bool complete = true;                   // false: larger numbers of stages or earlier cuts may be missing
};

// graph: layer_groups(costs). Limits: seconds. Throws InputError for more devices than the cluster has.
AsteroidResult asteroid_search(const LayerGroupGraph& graph, const CostGraph& costs, const Cluster& cluster,
                               const AsteroidOptions& options);

}  // namespace sluice
