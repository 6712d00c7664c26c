// ComputeInFlight and ScheduleTask of GraphPipe (Jeon et al., ASPLOS 2025, sections 5 and 6, algorithm 2, appendix
// A.1): how many micro-batches a stage holds, and its kFkB order, on a DAG of stages with micro-batches of their own.
// The paper's table for the first cannot be read in the copies we had; this form reproduces every published number and
// was checked against unlimited buffers.
//
// Everything is counted in the schedule's micro-batches (the finest). A stage with micro-batch b runs k forwards and k
// backwards in turn; g = k b. A stage that feeds nobody holds i = g. A stage s that feeds t, which holds i_t, holds
//
//     i_s = i_t + max(g_t, 2 g_s - g_t),   rounded up to a multiple of max(b_s, b_t), at most a batch
//
// the most over all t. With one b and k = 1 that is b times the stages on the longest path to the end, not b times the
// stages that come after it in a sequence. p, q, r -> j, 3 micro-batches:
//
//   p  F0 F1    B0 F2 B1    B2           and as a sequence p q r j it would begin with F0 F1 F2 F3
//   j     F0 B0 F1 B1 F2 B2
#pragma once

#include <span>
#include <vector>

#include "harness/pipeline/schedule.h"

namespace sluice {

// How a stage takes its micro-batches, the paper's configuration c = (b, k).
struct StageConfig {
  int micro_batch = 1;  // b: of the schedule's micro-batches; all replicas together
  int k = 1;            // forwards in a row, and backwards
};

// ComputeInFlight: what a stage must hold that feeds a stage of configuration `next`, which holds `next_in_flight`.
int in_flight_before(StageConfig stage, int next_in_flight, StageConfig next, int microbatches);
// What a stage holds that feeds nobody.
int in_flight_of_sink(StageConfig stage, int microbatches);

// Per stage. A stage's b is its number of micro-batches per op times its replicas, as in `graph` and `placement`.
std::vector<StageConfig> stage_configs(const StageGraph& graph, const Placement& placement,
                                       std::span<const int> ks);  // k of every stage; empty: 1
std::vector<int> kfkb_in_flight(const StageGraph& graph, std::span<const StageConfig> configs, int microbatches);

// ScheduleTask: per stage its ops in order, replicas taking turns: forwards until the in-flight count is reached, then
// k backwards and k forwards in turn while there are any.
StageOrders kfkb_orders(const StageGraph& graph, const Placement& placement, std::span<const int> ks, int microbatches);
// The same with other in-flight counts than the rule's.
StageOrders kfkb_orders(const StageGraph& graph, const Placement& placement, std::span<const int> ks, int microbatches,
                        std::span<const int> in_flight);

}  // namespace sluice
