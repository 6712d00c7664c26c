// The messages of a program: what changes ranks, numbered by channel. There is one channel for each (sender, receiver),
// first in first out. A sender's messages are numbered in the order in which its ops make them, and the receiver's
// instructions are listed in that same order, so that both ends agree by construction.
//
// Values that travel along an edge of the stage graph are activations (down it) and their gradients (up it). Besides
// them, where a stage's W run on another rank than its F and I (Placement::weight_gradient_ranks), every I sends the
// stash that its W needs, and the last W of every update sends the sum of its weight gradients back. With
// RunPolicy::step_barrier every rank tells rank 0 that it has stepped, and rank 0 tells the others once it has heard it
// of all.
//
// Inference has no gradients to hold a fast stage back. With RunPolicy::queue, where a rank has one stage and takes the
// micro-batches in order (in another order a bounded queue could stop for ever), an op that begins tells the makers of
// its inputs so (a credit), and an op waits until those of its messages that nobody has begun to use leave room for one
// more on every edge. An edge that skips stages has room for one more on each stage that it skips. Where a rank has
// several stages its own order holds it back: it comes to the first again only after the last. Nobody waits for the
// credits of an edge's last messages, so they are not sent.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/program/program.h"

namespace sluice {

// How many messages between two stages may wait for the second one: `queue` and one more for each stage that the edge
// skips, times what an op makes or takes at once.
int queue_room(const StageGraph& graph, StageId from, StageId to, int queue);

class Messages {
 public:
  // The schedule must have passed its check (check_schedule.h). All three must outlive this.
  Messages(const Schedule& schedule, const StageGraph& graph, const Placement& placement, const WeightRule& rule,
           const RunPolicy& policy);

  const std::vector<Channel>& channels() const { return channels_; }

  // The receives of a channel, in the order of its sends.
  const std::vector<Instruction>& receives(int channel) const { return receives_[channel]; }

  // Place `position` of a channel: the receiver takes everything up to there before it goes on.
  struct Awaited {
    int channel;
    std::int32_t position;
  };
  // Adds what an op needs from other ranks.
  void add_inputs(const Op& op, std::vector<Awaited>& awaited) const;
  // Adds the credits that an op gives when it begins.
  void add_credits(const Op& op, std::vector<Instruction>& sends) const;
  // Adds the sends of what an op has made for other ranks.
  void add_sends(const Op& op, std::vector<Instruction>& sends) const;

  // Between a stage's rank and the rank of its W: the sum of the weight gradients of an update.
  int weight_gradient_sums(StageId stage) const;  // how many there are
  Awaited weight_gradient_sum(StageId stage, int update) const;
  Instruction send_weight_gradient_sum(StageId stage, int update) const;
  // The step barrier's messages.
  Awaited last_of(Rank from, Rank to) const;
  Instruction send_stepped(Rank from, Rank to) const;

 private:
  struct StageEdges {
    std::vector<std::size_t> down, up;  // edges to successors, from predecessors
  };
  // A value on an edge that one op makes or takes, and the op's counterpart is on another rank.
  struct EdgeValue {
    std::size_t edge;
    StageId peer;
    Micro message;
    Rank rank;  // of the counterpart
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
  std::vector<std::int32_t> stash_position_;  // [stage][micro]; empty: every W runs where its F and I do
  std::vector<std::vector<std::int32_t>> sum_position_;  // [stage][update]; as above
  // Of an edge's message, slot(edge, message): the message whose credit it waits for, -1: none; whether it gives one;
  // and that credit's place in its channel. Empty: there are no credits.
  std::vector<std::int32_t> credit_of_, credit_position_;
  std::vector<bool> gives_credit_;
};

}  // namespace sluice
