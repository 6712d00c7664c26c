// The messages of a program: what changes ranks, numbered by channel. There is one channel for each (sender, receiver),
// first in first out. A sender's messages are numbered in the order in which its ops make them, and the receiver's
// instructions are listed in that same order, so that both ends agree by construction.
//
// Values that travel along an edge of the stage graph are activations (down it) and their gradients (up it). Besides
// them, where a stage's W run on another rank than its F and I (Placement::weight_gradient_ranks), every I sends the
// stash that its W needs, and the last W sends the sum of the weight gradients back. With RunPolicy::step_barrier
// every rank tells rank 0 that it has stepped, and rank 0 tells the others once it has heard it of all.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "harness/program/program.h"

namespace sluice {

class Messages {
 public:
  // The schedule must have passed its check (check_schedule.h). All three must outlive this.
  Messages(const Schedule& schedule, const StageGraph& graph, const Placement& placement, bool step_barrier);

  const std::vector<Channel>& channels() const { return channels_; }

  // The receives of a channel, in the order of its sends.
  const std::vector<Instruction>& receives(int channel) const { return receives_[static_cast<std::size_t>(channel)]; }

  // Place `position` of a channel: the receiver takes everything up to there before it goes on.
  struct Awaited {
    int channel;
    std::int32_t position;
  };
  // Adds what an op needs from other ranks.
  void add_inputs(const Op& op, std::vector<Awaited>& awaited) const;
  // Adds the sends of what an op has made for other ranks.
  void add_sends(const Op& op, std::vector<Instruction>& sends) const;

  // Between a stage's rank and the rank of its W: the sum of the weight gradients.
  Awaited weight_gradient_sum(StageId stage) const;
  Instruction send_weight_gradient_sum(StageId stage) const;
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

  void number_outputs(const Op& op);
  std::int32_t number(Rank from, Rank to, Instruction receive);
  int open_channel(Rank from, Rank to);
  int channel(Rank from, Rank to) const { return channel_of_.at({from, to}); }
  std::size_t slot(std::size_t edge, Micro message, bool gradient) const {
    return (edge * micros_ + message.index()) * 2 + (gradient ? 1 : 0);
  }
  std::size_t slot(const Op& op) const { return op.stage.index() * micros_ + op.micro.index(); }
  Rank home(const Op& op) const { return placement_.rank_of(op.stage, op.micro); }
  Rank weight_gradient_rank(StageId stage) const { return placement_.weight_gradient_ranks[stage.index()]; }

  const StageGraph& graph_;
  const Placement& placement_;
  std::size_t micros_;
  std::vector<std::pair<StageId, StageId>> edges_;
  std::vector<StageEdges> edges_of_;
  std::vector<Channel> channels_;
  std::vector<std::vector<Instruction>> receives_;  // per channel
  std::map<std::pair<Rank, Rank>, int> channel_of_;
  std::vector<std::int32_t> position_;        // of an edge's message in its channel: slot(edge, message, gradient)
  std::vector<std::int32_t> stash_position_;  // [stage][micro]; empty: every W runs where its F and I do
  std::vector<std::int32_t> sum_position_;    // [stage]; as above
};

}  // namespace sluice
