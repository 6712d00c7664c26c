// A case made ready: its costs, its plan, its ranks. What its programs, theory and predictions are made of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/case/choices.h"
#include "harness/model/interference.h"
#include "harness/model/tensor_split.h"
#include "harness/pipeline/replicas.h"
#include "harness/pipeline/system.h"
#include "harness/program/program.h"
#include "workloads/models/registry.h"

namespace sluice {

class ProfileStore;

struct Prepared {
  const System* system = nullptr;
  const Workload* workload = nullptr;
  Options options;
  Cluster cluster;
  CostGraph costs;
  ProfileStore* profiles = nullptr;  // where plans of other micro-batch sizes get theirs; outlives this
  Storage storage;                   // what the run's tensors are counted in
  Plan pipeline;      // of one data-parallel replica, as the planner made it; orders are made for it, too
  StageOrders order;  // of the pipeline's ops, where the planner has decided it
  PipelineReplicas replicas;
  StageSharding sharding = StageSharding::system;
  Plan plan;  // of all replicas
  RankMap ranks;
  StageGraph graph;
  // The workload's model with copies of weights that stages share (with_copies); null: it has none.
  std::shared_ptr<const ModelGraph> copied;
  double planning_seconds = 0;
  std::int64_t micro_batch = 1;  // samples; of the largest, where sizes differ
  MicrobatchSizes sizes;
  std::vector<CostGraph> size_costs;  // of each of sizes.distinct()
  int microbatches_per_update = 1;
  RunPolicy::Leftover leftover = RunPolicy::Leftover::drop;
  bool step_barrier = false;
  bool clip_norm = false;     // RunPolicy::clip_norm
  Interference interference;  // of the run; plans are made without it
  bool inference = false;
  int queue = 0;  // inference: RunPolicy::queue
  bool batched_weight_gradients = false;
  Bytes gradient_bucket;  // RunCase::gradient_buckets
  // Tensor parallelism: `pipeline` is then for groups of devices, and `plan` for all of them. Null: layers are whole.
  std::shared_ptr<const TensorModel> tensor;
  CostGraph member_costs;  // with `tensor`: of what one device of a group holds, sums over the group included
  // Of a system that divides words: the model with slices of head and embedding for all ranks; `costs` are of its
  // TensorModel::all. Null: head and embedding are whole.
  std::shared_ptr<const TensorModel> words;
};

// Whose parts the ranks run, whichever way it is divided; null: all layers are whole.
inline const std::shared_ptr<const TensorModel>& divided_model(const Prepared& p) {
  return p.words ? p.words : p.tensor;
}

// What the ranks run: the workload's model, also with copies of weights, or the members' parts of it side by side.
inline const ModelGraph& running_model(const Prepared& p) {
  return divided_model(p) ? divided_model(p)->all : p.copied ? *p.copied : p.workload->model;
}

// What planners and orders are made for: of tensor-parallel groups, one device of each.
inline const ModelGraph& planned_model(const Prepared& p) {
  return p.words ? p.words->all : p.tensor ? p.tensor->member : p.workload->model;
}
inline const CostGraph& planned_costs(const Prepared& p) { return p.tensor ? p.member_costs : p.costs; }

inline std::int64_t samples_per_update(const Prepared& p) {
  return p.sizes.differ() ? p.sizes.batch() : p.micro_batch * p.microbatches_per_update;
}

// "4 x 8" micro-batches and samples, "4 x 2 to 3".
std::string microbatches_text(const Prepared& p);

inline int group_size(const Prepared& p) { return p.tensor ? p.tensor->degree : 1; }  // of a tensor-parallel group

}  // namespace sluice
