// Costs measured inside runs of the real executor: the whole model on every rank, in a training's order of ops, with
// its working set, after warm-up; once on one rank while the others are idle, and once on all of them at a time.
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
  int neighbours = 1;            // ranks that are busy next to the measured one in the second measurement
  // The weight gradients of this many micro-batches are measured as one product; 0: of each by itself.
  int batched_microbatches = 0;
  int rounds = 3;  // of a quarter of a second for each kind of chain, by turns
};

// On this machine's CPU, one thread a rank, each on a core of its own where the build can pin. `machine` of the result
// lacks what names the machine and the build. Takes some seconds.
CostGraph measure_in_runs(const RunProfileSpec& spec);

// Of the model as data-parallel replicas on two processes, its weights whole and sharded, and of messages as large as
// the tensors of its middle. `processes` has two members, and both call this; the result is the first one's in both.
BetweenProcesses measure_between_processes(const RunProfileSpec& spec, ProcessGroup& processes);

}  // namespace sluice
