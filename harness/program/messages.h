// The messages of a program: values that change ranks, numbered by channel. There is one channel for each (sender,
// receiver), first in first out. A sender's messages are numbered in the order in which its ops make them, and the
// receiver's instructions have that same order, so both ends agree by construction.
//
// Values on an edge of the stage graph are activations (downstream) and their gradients (upstream). If a stage's W run
// on another rank than its F and I (Placement::weight_gradient_ranks), every I also sends the stash that its W needs,
// and the last W of every update sends the sum of its weight gradients back. With RunPolicy::step_barrier every rank
// tells rank 0 that it has stepped, and rank 0 tells the others once all have.
//
// Inference sends no gradients, which would throttle a fast stage. With RunPolicy::queue, for ranks with one stage that
// take the micro-batches in order (in another order a limited queue could deadlock), an op sends a credit to the makers
// of its inputs when it begins. An op waits until every edge has room for one more message that has no credit yet. An
// edge that skips stages has room for one more message per skipped stage. A rank with several stages needs no credits:
// it runs its first stage again only after the last. Nothing waits for the credits of an edge's last messages, so they
// are not sent.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/program/program.h"

namespace sluice {

// Max messages between two stages that wait for the second one: `queue` plus one for each stage that the edge skips,
// times the number that an op makes or takes at once.
int queue_room(const StageGraph& graph, StageId from, StageId to, int queue);

class Messages {
 public:
  // The schedule must have passed its check (check_schedule.h). All three must outlive this.
  Messages(const Schedule& schedule, const StageGraph& graph, const Placement& placement, const WeightRule& rule,
           const RunPolicy& policy);

  const std::vector<Channel>& channels() const { return channels_; }

  // The receives of a channel, in the order of its sends.
  const std::vector<Instruction>& receives(int channel) const { return receives_[channel]; }

  // Place `position` of a channel: the receiver takes all messages up to it before it continues.
  struct Awaited {
    int channel;
    std::int32_t position;
  };
  // Adds the inputs of an op from other ranks.
  void add_inputs(const Op& op, std::vector<Awaited>& awaited) const;
  // Adds the credits that an op sends when it begins.
  void add_credits(const Op& op, std::vector<Instruction>& sends) const;
  // Adds the sends of an op's outputs to other ranks.
  void add_sends(const Op& op, std::vector<Instruction>& sends) const;

  // Between a stage's rank and the rank of its W: the sum of the weight gradients of an update.
  int weight_gradient_sums(StageId stage) const;  // their number
  Awaited weight_gradient_sum(StageId stage, int update) const;
  Instruction send_weight_gradient_sum(StageId stage, int update) const;
  // The step barrier's messages.
  Awaited last_of(Rank from, Rank to) const;
  Instruction send_stepped(Rank from, Rank to) const;

 private:
  struct StageEdges {
    std::vector<std::size_t> down, up;  // edges to successors, from predecessors
  };
  // A value on an edge that an op makes or takes, whose other op is on another rank.
  struct EdgeValue {
    std::size_t edge;
    StageId peer;
    Micro message;
    Rank rank;  // of the other op
  };

  template <class Visit>
  void for_each_value(const Op& op, const std::vector<std::size_t>& edges, bool down, Visit visit) const;
  template <class Visit>
  void for_each_output(const Op& op, Visit visit) const;

  void find_credits(const Schedule& schedule, int queue);
  void number_credits(const Op& op);
  void number_outputs(const Op& op);
  std::int32_t number(Rank from, Rank to, Instruction receive);
  int open_channel(Rank from, Rank to);
  int channel(Rank from, Rank to) const { return channel_of_.at(ends(from, to)); }
  static std::uint64_t ends(Rank from, Rank to) { return (std::uint64_t{from.index()} << 32) | to.index(); }
  std::size_t slot(std::size_t edge, Micro message, bool gradient) const {
    return (edge * microbatches_ + message.index()) * 2 + (gradient ? 1 : 0);
  }
  std::size_t slot(std::size_t edge, Micro message) const { return edge * microbatches_ + message.index(); }
  std::size_t slot(const Op& op) const { return op.stage.index() * microbatches_ + op.micro.index(); }
  Rank home(const Op& op) const { return placement_.rank_of(op.stage, op.micro); }
  Rank weight_gradient_rank(StageId stage) const { return placement_.weight_gradient_ranks[stage.index()]; }

  const StageGraph& graph_;
  const Placement& placement_;
  std::size_t microbatches_;
  std::vector<std::pair<StageId, StageId>> edges_;
  std::vector<StageEdges> edges_of_;
  std::vector<Channel> channels_;
  std::vector<std::vector<Instruction>> receives_;     // per channel
  std::unordered_map<std::uint64_t, int> channel_of_;  // by ends()
  std::vector<std::int32_t> position_;        // of an edge's message in its channel: slot(edge, message, gradient)
  std::vector<std::int32_t> stash_position_;  // [stage][micro]; empty: every W runs on the rank of its F and I
  std::vector<std::vector<std::int32_t>> sum_position_;  // [stage][update]; as above
  // For an edge's message, slot(edge, message): the message whose credit it waits for, -1: none; and the place in its
  // channel of the credit that it gives, if any. Empty: there are no credits.
  std::vector<std::int32_t> credit_of_, credit_position_;
  std::vector<bool> gives_credit_;
};

}  // namespace sluice
