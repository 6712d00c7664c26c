// PipelineReplicas: data-parallel replicas of a whole pipeline, each with its share of the micro-batches. A stage is on
// one rank of every replica (several if its plan says so). These ranks are the stage's group, which reduces its
// gradients or, if sharded, also its weights. Two layouts of p ranks and D replicas over devices, here p = 2, D = 4,
// machines of four:
//
//   pipelines (replica after replica)   a b  a b | a b  a b      a stage's group spans the machines
//   groups (stage after stage)          a a  a a | b b  b b      a group is on one machine
#pragma once

#include <string>
#include <vector>

#include "harness/pipeline/offload.h"
#include "harness/pipeline/plan.h"
#include "harness/pipeline/schedule.h"

namespace sluice {

struct PipelineReplicas {
  int count = 1;
  enum class Layout { pipelines, groups } layout = Layout::groups;
};

// `one` is a plan for `devices` devices, 0 to devices - 1, and `microbatches` micro-batches; the result is for count
// times as many of both. Replica d runs the micro-batches from d * microbatches on. Throws InputError for a plan that
// is not a single pipeline: stages with different numbers of replicas, tensor-parallel layers, or ops of several
// micro-batches.
Plan replicate(const Plan& one, int devices, int microbatches, const PipelineReplicas& replicas);

// The order of the one pipeline on every replica.
Schedule replicate(const Schedule& one, const PipelineReplicas& replicas);

// Its moves of stashes, for `microbatches` micro-batches, on every replica.
Offload replicate(const Offload& one, int microbatches, const PipelineReplicas& replicas);

// The values of one pipeline's ranks, repeated for the ranks of all replicas.
template <class Value>
std::vector<Value> replicate(const std::vector<Value>& one, const PipelineReplicas& replicas);

// Number, among the ranks of all replicas, of rank `rank` (of `ranks`) in replica `replica`.
int rank_in_replica(int rank, int replica, int ranks, const PipelineReplicas& replicas);

template <class Value>
std::vector<Value> replicate(const std::vector<Value>& one, const PipelineReplicas& replicas) {
  const auto ranks = static_cast<int>(one.size());
  std::vector<Value> result(one.size() * static_cast<std::size_t>(replicas.count));
  for (int d = 0; d < replicas.count; ++d)
    for (int r = 0; r < ranks; ++r) result[rank_in_replica(r, d, ranks, replicas)] = one[r];
  return result;
}

}  // namespace sluice
