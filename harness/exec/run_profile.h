// Costs measured inside runs of the real executor: the whole model on every rank, in a training's order of ops, with
// its working set, after warm-up; once on one rank while the others are idle, and once on all of them at the same time.
#pragma once

#include <optional>

#include "harness/exec/process_group.h"
#include "harness/exec/session.h"
#include "harness/model/cost_graph.h"

namespace sluice {

struct RunProfileSpec {
  ModelGraph model;
  std::int64_t micro_batch = 1;  // samples
  OptimizerSpec optimizer;
  std::optional<DataFeed> feed;  // none: a synthetic batch
  int neighbours = 1;            // busy ranks next to the measured one in the second measurement
  // The weight gradients of this many micro-batches are measured as one product; 0: one product each.
  int batched_microbatches = 0;
  int rounds = 3;  // of a quarter of a second per kind of chain, in turn
};

// On this machine's CPU, one thread per rank, each bound to a core if the build supports it. `machine` of the result
// lacks the names of the machine and the build. Takes some seconds.
CostGraph measure_in_runs(const RunProfileSpec& spec);

// For the model as data-parallel replicas on two processes, with whole and sharded weights, and for messages as large
// as the tensors in its middle. `processes` has two members, and both call this; both get the first one's result.
BetweenProcesses measure_between_processes(const RunProfileSpec& spec, ProcessGroup& processes);

}  // namespace sluice
