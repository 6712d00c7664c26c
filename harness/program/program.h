// Program: what a rank really runs. Lowering takes a schedule (compute ops only) and adds sends,
// receives, gradient reductions and optimizer steps, and writes the weight version into every
// compute instruction. Both clocks run this and nothing else.
//
// Messages between two ranks travel in channels, one per (sender, receiver), first in first out.
// Sends follow the op that makes the value and never block; a receive stands before the first op
// that needs it, and the receives of a channel are in the order of its sends (an early message is
// taken early), so the two ends agree by construction. An overlapped pair receives the inputs of
// both ops first and sends the outputs of both last. A stage steps after the last gradient of an
// update; a replicated one after an all-reduce besides, which in a flushing program stands at the
// end of the rank's program.
//
// Sharded stages (sharding.h has the rules) gather, free and reduce-scatter. All ranks of a stage's
// group meet in its collectives, each with the same ones in the same order. An engine may begin one
// where it is issued and go on: an op that reads gathered weights waits for its gather; a weight
// gradient and a step wait for the stage's last reduce-scatter. check() makes sure that they could
// as well block.
// Where a stage's W run on another rank than its F and I (Placement::weight_gradient_ranks), every
// I sends on what its W needs, and the last W sends the sum of the weight gradients back to the
// rank that holds the weights, which steps. With RunPolicy::step_barrier every rank tells rank 0
// that it has stepped, and waits for rank 0 to have heard it of all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/pipeline/run_policy.h"
#include "harness/pipeline/schedule.h"
#include "harness/pipeline/sharding.h"
#include "harness/pipeline/weight_rule.h"

namespace sluice {

enum class Opcode : std::uint8_t {
  forward,
  backward,
  input_gradient,
  weight_gradient,
  recompute,  // the forward once more, before the backward that needs its activations
  send_activation,
  receive_activation,
  send_gradient,
  receive_gradient,
  send_stash,  // what W reads: the layers' inputs and output gradients
  receive_stash,
  send_weight_gradient,  // the sum over the update, added to the receiver's
  receive_weight_gradient,
  send_stepped,  // an empty message
  receive_stepped,
  reduce_gradients,  // all-reduce over the stage's replicas
  optimizer_step,
  gather_weights,  // all-gather of a sharded stage's weights of `version`
  free_weights,    // drops the gathered copy; the own shard stays
  reduce_scatter,  // sums the gradients since the last one over the group, adds the own slice to
                   // the shard's gradient, and empties the whole vector's
};

// Ops that occupy the device with a stage's layers: F, B, I, W and recomputation.
constexpr bool is_compute(Opcode opcode) { return opcode <= Opcode::recompute; }
constexpr bool is_collective(Opcode opcode) {
  return opcode == Opcode::reduce_gradients || opcode == Opcode::gather_weights || opcode == Opcode::reduce_scatter;
}
constexpr bool is_message(Opcode opcode) {
  return opcode >= Opcode::send_activation && opcode <= Opcode::receive_stepped;
}
constexpr bool is_send(Opcode opcode) {
  return opcode == Opcode::send_activation || opcode == Opcode::send_gradient || opcode == Opcode::send_stash ||
         opcode == Opcode::send_weight_gradient || opcode == Opcode::send_stepped;
}
// Ops that read weights; W does not.
constexpr bool reads_weights(Opcode opcode) { return is_compute(opcode) && opcode != Opcode::weight_gradient; }

struct Instruction {
  Opcode opcode = Opcode::forward;
  bool checkpoint = false;    // forward: keeps the stage's input only; a recompute makes the rest
  bool overlapped = false;    // compute: with the next one of its rank, the first of a pair
  std::int16_t horizon = 0;   // compute: reads version - horizon * lr * Delta (WeightRule)
  StageId stage;              // the rank's own stage
  Micro micro;                // compute: the stage's own op number; communication: the message's on its
                              // edge (the same unless stages take several micro-batches at once,
                              // StageGraph::micros_per_op); step: the index of the program's update;
                              // gather, free, reduce-scatter: of the rank's op that it serves
  StageId peer_stage;         // communication: the stage at the other end
  std::int32_t channel = -1;  // communication: index into Program::channels; collectives: the stage's group
  std::int32_t version = 0;   // compute: weight version to read, counted from the program's start
                              // (negative: made before it); step: the version it makes; gather
                              // and free: the gathered copy's
  // compute: which predicted tensor of the stage to read, made by the first that reads it from
  // `version`, which must be the newest then; -1: the version itself
  std::int32_t prediction = -1;
};

std::string to_text(const Instruction& instruction);  // "5I2", "send_activation 5->6 2", "step 5"

struct Channel {
  Rank from, to;
  std::int32_t messages = 0;  // in one run of the program
};

struct Program {
  std::vector<std::vector<Instruction>> ranks;
  std::vector<Channel> channels;
  StageGraph graph;
  Placement placement;
  int microbatches = 0;
  // Updates of one run. A stage with fewer replicas than another one steps more often: each of its
  // steps belongs to one of these.
  int updates = 0;
  int micros_per_update = 0;
  std::vector<int> micros_per_step;    // per stage: micro-batches of one of its steps, all replicas
  std::vector<int> predictions;        // per stage: predicted tensors, ids 0 .. n - 1
  std::vector<int> retained_versions;  // per stage: old versions that the next run of the program still reads
  WeightRule rule;
  RunPolicy policy;
  Sharding sharding;
  std::size_t rank_count() const { return ranks.size(); }
  bool sharded(StageId stage) const { return sharding.active() && placement.stages[stage.index()].size() > 1; }
};

// Throws InputError if the schedule does not pass check() (check.h; the message is the first
// violation), or the rule cannot be kept: a version that does not exist yet when it is read,
// replicas whose collectives would wait for one another, micro-batches that are no whole number of
// steps, sharding of a system that updates without a flush.
Program lower(const Schedule& schedule, const StageGraph& graph, const Placement& placement, const WeightRule& rule,
              const Sharding& sharding = {}, const RunPolicy& policy = {});

}  // namespace sluice
