// Costs: seconds of the ops of every stage on the virtual clock, and bytes of its messages.
#pragma once

#include <optional>
#include <vector>

#include "harness/model/cluster.h"
#include "harness/pipeline/plan.h"
#include "harness/program/program.h"

namespace sluice {

struct SimulatedEdge {
  StageId from, to;
  Bytes bytes;        // of one micro-batch's activation; its gradient has the same size. If the ops of both stages take
                      // several micro-batches, a message has that many times as much
  Bytes copied = {};  // of the activation: bytes that the sender also keeps, and has to copy
  Bytes passed = {};  // added to the gradient: inputs of the rest of a divided product, minus the channels passed on
};

struct Costs {
  std::vector<StageCost> stages;     // per stage, on the device it runs on
  std::vector<SimulatedEdge> edges;  // missing edge: 0 bytes
  // Per stage, for one micro-batch: bytes sent to a W on another rank (outputs of the layers with weights, and of those
  // before them); empty: 0 bytes.
  std::vector<Bytes> weight_stash = {};
  std::optional<MachineCosts> machine = {};  // of this machine's executor, if measured
  bool batched_weight_gradients = false;     // W of all micro-batches of an update is one product
  // If sequences are cut into chunks: the share of a stage's seconds for an op of one chunk. Per stage and chunk;
  // empty: equal shares. Shares may add up to more than 1: every chunk launches every layer.
  struct ChunkParts {
    double forward = 1, input_gradient = 1, weight_gradient = 1;
  };
  std::vector<std::vector<ChunkParts>> chunk_parts = {};
  std::vector<double> chunk_positions = {};  // and the share of a message's bytes; empty: equal shares
  // Per stage: seconds to copy what a micro-batch keeps between F and I or B, one way between a device and its host;
  // empty: a device has no host link.
  std::vector<Seconds> host_copies = {};
  // Per stage: the buckets in which its replicas reduce their gradients (pipeline/gradient_buckets.h), in order, and
  // the shares of the seconds of a B and of a W after which each is ready. Empty: all gradients at once, after the
  // backward.
  struct GradientBucket {
    double bytes = 0;
    double in_backward = 1, in_weight_gradient = 1;
  };
  std::vector<std::vector<GradientBucket>> gradient_buckets = {};
  // The same for each of Program::sizes.distinct(), if micro-batches differ; this one is for the largest.
  std::vector<Costs> of_size = {};
  const Costs& at(const Program& program, Micro micro) const {
    return program.sizes.differ() ? of_size[program.sizes.index_of(micro)] : *this;
  }
  std::vector<Bytes> copies = {};  // of the gradient of each of StageGraph::copies
  Bytes norm = {};                 // of the message that sums the gradients' norm: one double per layer
  ChunkParts parts_of(const Program& program, StageId stage, int chunk) const;
  double part_of_message(const Program& program, const Instruction& message) const;
};

// Costs of a plan with micro-batches of plan.micro_batch samples, the size of the cost graph's. gradient_bucket: bytes
// at which a bucket of gradients is full; 0: gradients are reduced after the backward.
Costs costs_of(const Plan& plan, const CostGraph& graph, const Cluster& cluster, Bytes gradient_bucket = {});

// Costs::host_copies of a plan: for the slowest of a stage's devices or, on this machine, a copy in memory.
std::vector<Seconds> host_copies_of(const Plan& plan, const CostGraph& graph, const Cluster& cluster);

}  // namespace sluice
