// Program: what a rank really runs: the schedule's compute ops, and sends, receives, gradient reductions and optimizer
// steps, with the weight version that every compute instruction reads. Lowering (lowering.h) makes it, check_program.h
// checks it, and both clocks run it and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/pipeline/microbatch_sizes.h"
#include "harness/pipeline/offload.h"
#include "harness/pipeline/run_policy.h"
#include "harness/pipeline/schedule.h"
#include "harness/pipeline/sharding.h"
#include "harness/pipeline/weight_rule.h"

namespace sluice {

// F, B, I and W come first, as in OpKind; the receive that takes what a send sends stands right behind the send.
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
  send_credit,  // inference: an empty message up an edge, when the op that takes the edge's message `micro` begins
  receive_credit,
  reduce_gradients,  // all-reduce over the stage's replicas
  reduce_copies,     // all-reduce of a tied weight's gradient over all ranks that hold a copy, once their replicas have
                     // reduced it
  reduce_norm,       // all-reduce of the gradients' squares, a number per layer, over all ranks that step
  optimizer_step,
  gather_weights,  // all-gather of a sharded stage's weights of `version`
  free_weights,    // drops the gathered copy; the own shard stays
  reduce_scatter,  // sums the gradients since the last one over the group, adds the own slice to the shard's gradient,
                   // and empties the whole vector's
  stash_out,       // StashMove, one opcode for each kind
  stash_free,
  stash_back,
};

// The opcode of an op that a schedule lists.
constexpr Opcode opcode_of(OpKind kind) { return static_cast<Opcode>(kind); }
static_assert(opcode_of(OpKind::weight_gradient) == Opcode::weight_gradient);
// Ops that a schedule lists: F, B, I and W.
constexpr bool is_scheduled(Opcode opcode) { return opcode <= Opcode::weight_gradient; }
// Ops that occupy the device with a stage's layers: F, B, I, W and recomputation.
constexpr bool is_compute(Opcode opcode) { return opcode <= Opcode::recompute; }
// Ops that read weights; W does not.
constexpr bool reads_weights(Opcode opcode) { return is_compute(opcode) && opcode != Opcode::weight_gradient; }
// Ops that add to a stage's weight gradients.
constexpr bool makes_weight_gradient(Opcode opcode) {
  return opcode == Opcode::backward || opcode == Opcode::weight_gradient;
}
// Ops that end a stash's time as an activation, so that they need all of it.
constexpr bool reads_stash(Opcode opcode) { return opcode == Opcode::backward || opcode == Opcode::input_gradient; }

// All-reduces of Program::step_groups.
constexpr bool is_of_step_group(Opcode opcode) {
  return opcode == Opcode::reduce_copies || opcode == Opcode::reduce_norm;
}
constexpr bool is_all_reduce(Opcode opcode) { return opcode == Opcode::reduce_gradients || is_of_step_group(opcode); }
constexpr bool is_collective(Opcode opcode) {
  return is_all_reduce(opcode) || opcode == Opcode::gather_weights || opcode == Opcode::reduce_scatter;
}
// What only sharded stages have.
constexpr bool is_of_sharded_stage(Opcode opcode) {
  return opcode == Opcode::gather_weights || opcode == Opcode::free_weights || opcode == Opcode::reduce_scatter;
}

// Moves of a stash between the device and its host.
constexpr bool is_stash_move(Opcode opcode) { return opcode >= Opcode::stash_out; }

constexpr bool is_message(Opcode opcode) {
  return opcode >= Opcode::send_activation && opcode <= Opcode::receive_credit;
}
constexpr bool is_send(Opcode opcode) {
  return is_message(opcode) && (static_cast<int>(opcode) - static_cast<int>(Opcode::send_activation)) % 2 == 0;
}
constexpr bool is_receive(Opcode opcode) { return is_message(opcode) && !is_send(opcode); }
// The receive that takes what `send` sends; `send` itself where it is none.
constexpr Opcode matching_receive(Opcode send) {
  return is_send(send) ? static_cast<Opcode>(static_cast<int>(send) + 1) : send;
}
// Messages that are more than a word of control.
constexpr bool has_values(Opcode opcode) { return is_message(opcode) && opcode < Opcode::send_stepped; }
// Messages along an edge of the stage graph: activations down it, their gradients up it.
constexpr bool is_along_edge(Opcode opcode) { return is_message(opcode) && opcode <= Opcode::receive_gradient; }

struct Instruction {
  Opcode opcode = Opcode::forward;
  bool checkpoint = false;   // forward: keeps the stage's input only; a recompute makes the rest
  bool overlapped = false;   // compute: with the next one of its rank, the first of a pair
  bool in_pair = false;      // compute: the first or the second of a pair
  std::int16_t horizon = 0;  // compute: reads version - horizon * lr * Delta (WeightRule)
  StageId stage;             // the rank's own stage
  Micro micro;               // compute: the stage's own op number; communication: the message's on its edge (the same
      // unless stages take several micro-batches an op, StageGraph::microbatches_per_op); step: the
      // index of the program's update; gather, free, reduce-scatter: of the rank's op that it
      // serves; move: the stash's
  StageId peer_stage;  // communication: the stage at the other end
  // communication: index into Program::channels; collectives: into collective_groups()
  std::int32_t channel = -1;
  std::int32_t version = 0;  // compute: weight version to read, counted from the program's start (negative: made
                             // before it); step: the version it makes; gather and free: the gathered copy's
  // compute: which predicted tensor of the stage to read, made by the first that reads it from `version`, which must be
  // the newest then; -1: the version itself
  std::int32_t prediction = -1;
};

// A message as the rank at its other end lists it: of a send its receive, of a receive its send.
Instruction other_end(Instruction message);

// "5I2", "send_activation 5->6 2", "step 5"
std::string to_text(const Instruction& instruction, int sequence_chunks = 1);
using InstructionText = std::string (*)(const Instruction&);
inline std::string plain_text(const Instruction& instruction) { return to_text(instruction); }

// When a send ends. Either way the messages from one rank to another are a queue without tags, first in, first out.
enum class SendEnd : std::uint8_t {
  buffered,    // at once
  rendezvous,  // when its receive begins, as NCCL's do
};

// The messages from one rank to another, first in first out.
struct Channel {
  Rank from, to;
  std::int32_t messages = 0;  // in one run of the program
};

struct Program {
  std::vector<std::vector<Instruction>> ranks;
  std::vector<Channel> channels;
  StageGraph graph;
  Placement placement;
  int microbatches = 0;     // where sequences are cut: times the chunks of each, as in the schedule
  MicrobatchSizes sizes;    // of the micro-batches of an update, where they differ
  int sequence_chunks = 1;  // of every micro-batch's sequences
  // Which chunk of its sequence an op or a message is of.
  int sequence_chunk_of(Micro micro) const { return sequence_chunks == 1 ? 0 : micro.value % sequence_chunks; }
  // Inference: forwards only, no optimizer steps, and `updates` counts batches: every microbatches_per_update
  // micro-batches.
  bool forward_only = false;
  // Updates of one run, each a whole number of steps of every stage: a stage with fewer replicas than another one steps
  // more often.
  int updates = 0;
  int microbatches_per_update = 0;
  std::vector<int> microbatches_per_step;  // per stage: micro-batches of one of its steps, all replicas
  std::vector<int> predictions;            // per stage: predicted tensors, ids 0 .. n - 1
  std::vector<int> retained_versions;      // per stage: old versions that the next run of the program still reads
  WeightRule rule;
  RunPolicy policy;
  Sharding sharding;
  bool offloads = false;  // some stashes wait in the host's memory
  // Groups other than replicas that meet before the optimizer's steps: the ranks that hold copies of a weight,
  // in the order of StageGraph::copies, then, with clipping, all ranks that step.
  std::vector<std::vector<Rank>> step_groups;
  // Tensor parallelism: the degree; that many neighbouring ranks hold one replica, each as a stage of its own, and sum
  // parts of tensors inside their ops, in the group tensor_group_of().
  int tensor = 1;
  // Some ops meet those of the other replicas in all-to-alls (model/expert_spread.h), in the stage's group of replicas.
  bool spreads_experts = false;
  std::size_t rank_count() const { return ranks.size(); }
  // The first of the step groups in collective_groups().
  int first_step_group() const { return graph.stages(); }
  // Which of StageGraph::copies a reduce_copies reduces.
  std::size_t weight_of(const Instruction& reduce_copies) const {
    return static_cast<std::size_t>(reduce_copies.channel - first_step_group());
  }
  int tensor_group_of(Rank rank) const {
    return first_step_group() + static_cast<int>(step_groups.size()) + rank.value / tensor;
  }
  bool sharded(StageId stage) const { return sharding.active() && placement.stages[stage.index()].size() > 1; }
};

// The ranks that meet in collectives: the replicas of every stage, then the step groups, then, with tensor parallelism,
// the tensor-parallel groups. An index into it is what transports call a group.
std::vector<std::vector<Rank>> collective_groups(const Program& program);

}  // namespace sluice
