// A prepared case: its costs, its plan, its ranks, from which its programs, theory and predictions are made.
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
  Cluster planned_cluster;  // as planners see it, with_measured_speeds(); without devices: as `cluster`
  CostGraph costs;
  ProfileStore* profiles = nullptr;  // source of costs for other micro-batch sizes; outlives this
  Storage storage;                   // number formats of the run's tensors
  Plan pipeline;      // of one data-parallel replica, as the planner made it; orders are also made for it
  StageOrders order;  // of the pipeline's ops, if the planner has decided it
  PipelineReplicas replicas;
  StageSharding sharding = StageSharding::system;
  Plan plan;  // of all replicas
  RankMap ranks;
  StageGraph graph;
  // The workload's model with copies of weights that stages share (with_copies); null: there are none.
  std::shared_ptr<const ModelGraph> copied;
  double planning_seconds = 0;
  std::int64_t micro_batch = 1;  // samples; of the largest one, if sizes differ
  MicrobatchSizes sizes;
  std::vector<CostGraph> size_costs;  // for each of sizes.distinct()
  int microbatches_per_update = 1;
  RunPolicy::Leftover leftover = RunPolicy::Leftover::drop;
  bool step_barrier = false;
  bool clip_norm = false;     // RunPolicy::clip_norm
  Interference interference;  // of the run; planners do not see it
  bool inference = false;
  int queue = 0;  // inference: RunPolicy::queue
  bool batched_weight_gradients = false;
  Bytes gradient_bucket;  // RunCase::gradient_buckets
  // Tensor parallelism: `pipeline` is then for groups of devices, and `plan` for all of them. Null: no groups.
  std::shared_ptr<const TensorModel> tensor;
  // The workload's model as a replica runs it, with experts spread over the replicas. Null: they are whole.
  std::shared_ptr<const ModelGraph> spread;
  CostGraph member_costs;  // with `tensor`: of one group member's part, including sums over the group
  // For a system with vocabulary slices: the model with slices of head and embedding for all ranks; `costs` are those
  // of its TensorModel::all. Null: head and embedding are whole.
  std::shared_ptr<const TensorModel> words;
};

// What a replica holds of the workload's model.
inline const ModelGraph& model_of_replica(const Prepared& p) { return p.spread ? *p.spread : p.workload->model; }

// The model whose parts the ranks run, for either kind of split; null: all layers are whole.
inline const std::shared_ptr<const TensorModel>& divided_model(const Prepared& p) {
  return p.words ? p.words : p.tensor;
}

// The model of all ranks: the workload's, with copies of weights, or with the parts of all group members.
inline const ModelGraph& running_model(const Prepared& p) {
  return divided_model(p) ? divided_model(p)->all : p.copied ? *p.copied : model_of_replica(p);
}

// The model for planners and orders: with tensor parallelism, that of one device per group.
inline const ModelGraph& planned_model(const Prepared& p) {
  return p.words ? p.words->all : p.tensor ? p.tensor->member : model_of_replica(p);
}
inline const CostGraph& planned_costs(const Prepared& p) { return p.tensor ? p.member_costs : p.costs; }

inline std::int64_t samples_per_update(const Prepared& p) {
  return p.sizes.differ() ? p.sizes.batch() : p.micro_batch * p.microbatches_per_update;
}

// "4 x 8" micro-batches and samples, "4 x 2 to 3".
std::string microbatches_text(const Prepared& p);

inline int group_size(const Prepared& p) { return p.tensor ? p.tensor->degree : 1; }  // of a tensor-parallel group

}  // namespace sluice
