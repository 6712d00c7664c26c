// Plan: a DAG of stages, with the layers, devices and replicas of each stage, and the micro-batch.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/model/cluster.h"
#include "harness/model/cost_graph.h"
#include "harness/pipeline/schedule.h"

namespace sluice {

struct PlanStage {
  std::vector<int> layers;        // ascending indices into the model's layers
  std::vector<DeviceId> devices;  // more than one: data-parallel replicas, `tensor` devices each
  int microbatches_per_op = 1;    // micro-batches that one of its ops takes at once
  int tensor = 1;                 // tensor-parallel degree of a replica
  bool recompute = false;         // keeps its input only; the backward recomputes the activations
  // Runs the weight gradients, if not the stage's (one) device.
  std::optional<DeviceId> weight_gradient_device = {};
  // LayerPipe: number of trailing input channels of the first layer (LayerCost::input_channels) whose input gradient
  // the previous stage's device computes, which needs it, from the output gradient and those channels' weights. 0:
  // none.
  int passed_channels = 0;
  std::vector<int> variants = {};  // per layer: index into LayerCost::variants; empty: as measured
};

// Report of the search for a plan.
struct SearchReport {
  double objective = 0;                          // what the planner minimised, in its own unit (mostly seconds)
  std::string objective_name = "slowest stage";  // its name: "seconds of one iteration"
  std::int64_t states = 0;                       // visited
  bool complete = true;                          // false: a limit ended the search, and this is the best plan so far
  double seconds = 0;                            // of the search; measured by its caller
};

// How a system cuts the sequences of every micro-batch into chunks, of which each op works on one.
struct SequenceChunks {
  int count = 1;          // 1: sequences stay whole
  bool balanced = false;  // true: chunks of equal work; false: of equal length
};

struct Plan {
  std::vector<PlanStage> stages;             // in topological order
  std::int64_t micro_batch = 1;              // samples
  std::vector<std::size_t> replica_of = {};  // of every micro-batch: Placement::replica_of
  std::vector<DeviceId> rank_order = {};     // device of every rank; empty: in order of first use
  SearchReport search = {};                  // how the plan was found
  // Edges between stages that carry no tensor: the first stage's forward comes before the second's, and the second's
  // backward before the first's. They make a sequential pipeline of any model.
  std::vector<std::pair<StageId, StageId>> imposed_edges;
  SequenceChunks sequence = {};
  // Where the chunks of a sequence begin, and its end; empty: whole, or (without a model) equal chunks.
  std::vector<std::int64_t> sequence_cut = {};
};

// Stage of every layer. Throws InputError if a layer is in no stage or in two.
std::vector<int> stage_of_layers(const Plan& plan, std::size_t layers);
// Edges between stages, from the layers' inputs (`inputs[i]` as LayerSpec::inputs) and imposed.
std::vector<std::pair<StageId, StageId>> stage_edges(const Plan& plan, const std::vector<std::vector<int>>& inputs);
std::vector<std::vector<int>> inputs_of(const CostGraph& costs);  // per layer, those that it reads
StageGraph stage_graph(const Plan& plan, const CostGraph& costs);

// Ranks: the plan's devices in Plan::rank_order, or of first use; rank r runs on devices[r]. A replica of several
// devices is one rank, on the first of them. Throws InputError for a stage without a device, or a rank_order that
// leaves one out.
struct RankMap {
  std::vector<DeviceId> devices;
  Placement placement;
};
RankMap ranks_of(const Plan& plan);

// Per stage, on the plan's devices (the slowest replica counts), for one of its ops: one micro-batch, or the number
// that the op takes at once.
struct StageCost {
  Seconds forward, input_gradient, weight_gradient, update;
  Bytes parameters;                          // of the trained weights
  Bytes frozen = {};                         // of the frozen weights, which every rank of a sharded stage holds whole
  std::optional<Bytes> gradient_bytes = {};  // as they are reduced; absent: the bytes of the weights
  Bytes gradients() const { return gradient_bytes.value_or(parameters); }
  Seconds clear = {};                    // zeroing the gradients before the first one of an update
  Seconds batched_weight_gradient = {};  // per micro-batch, of several whose W is one product
  Seconds split_weight_gradient = {};    // of a W that is a separate op
  // Per pass of the whole stage: slowdown factor while all neighbouring ranks compute (PassMeasurement).
  struct Contention {
    double forward = 1, input_gradient = 1, weight_gradient = 1, update = 1;
  };
  Contention contention = {};
  double pair_share = 1;  // an op in an overlapped pair takes this share of its own seconds
};
std::vector<StageCost> stage_costs(const Plan& plan, const CostGraph& costs, const Cluster& cluster);

// Bytes of a micro-batch's activation from one stage to another (all tensors that cross that edge).
Bytes edge_bytes(const Plan& plan, const CostGraph& costs, StageId from, StageId to);
// Bytes of the gradient that comes back, for the tensors that need one. no_gradient: without_gradient(costs).
Bytes gradient_bytes(const Plan& plan, const CostGraph& costs, StageId from, StageId to,
                     const std::vector<bool>& no_gradient);

// The variant in which the plan runs its stage's i-th layer; null: none, as measured.
const LayerVariant* variant_of(const PlanStage& stage, std::size_t i, const CostGraph& costs);

}  // namespace sluice
