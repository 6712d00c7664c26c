#include "harness/program/messages.h"

#include <algorithm>
#include <map>

#include "harness/base/stop.h"

namespace sluice {

int queue_room(const StageGraph& graph, StageId from, StageId to, int queue) {
  // The longest way between the two, in stages; the graph is without cycles.
  std::vector<int> length(graph.size(), -1);
  length[from.index()] = 0;
  std::vector<StageId> reached{from};
  while (!reached.empty()) {
    const StageId s = reached.back();
    reached.pop_back();
    for (const StageId t : graph.successors[s.index()])
      if (length[s.index()] + 1 > length[t.index()]) {
        length[t.index()] = length[s.index()] + 1;
        reached.push_back(t);
      }
  }
  const int most = std::max(graph.microbatches_per_op_of(from), graph.microbatches_per_op_of(to));
  return (queue + length[to.index()] - 1) * (most / microbatches_per_message(graph, from, to));
}

// How many W of a stage make the sum that goes back to its rank after the last of them.
static int gradients_of_sum(const WeightRule& rule, int gradients) {
  return rule.synchronous() ? gradients : rule.accumulate;
}

Messages::Messages(const Schedule& schedule, const StageGraph& graph, const Placement& placement,
                   const WeightRule& rule, const RunPolicy& policy)
    : graph_(graph), placement_(placement), microbatches_(static_cast<std::size_t>(schedule.microbatches)) {
  edges_of_.resize(graph.size());
  for (std::size_t s = 0; s < graph.size(); ++s)
    for (const StageId t : graph.successors[s]) {
      edges_of_[s].down.push_back(edges_.size());
      edges_of_[t.index()].up.push_back(edges_.size());
      edges_.push_back({StageId(s), t});
    }
  position_.assign(edges_.size() * microbatches_ * 2, 0);
  if (!placement.weight_gradient_ranks.empty()) {
    stash_position_.assign(graph.size() * microbatches_, 0);
    sum_position_.resize(graph.size());
  }
  const std::size_t ranks = schedule.ranks.size();
  const bool step_barrier = policy.step_barrier;
  if (schedule.forward_only && policy.queue > 0) find_credits(schedule, policy.queue);
  for (std::size_t r = 0; r < ranks; ++r) {
    std::vector<int> weight_gradients(sum_position_.size(), 0);
    for (const Op& op : schedule.ranks[r]) {
      check_stop();
      if (!credit_of_.empty()) number_credits(op);
      number_outputs(op);
      if (op.kind != OpKind::weight_gradient || !placement.has_weight_gradient_rank(op.stage)) continue;
      const std::size_t s = op.stage.index();
      const int all = schedule.microbatches / graph.microbatches_per_op_of(op.stage), done = ++weight_gradients[s];
      const bool partial = done == all && policy.leftover == RunPolicy::Leftover::partial;
      if (done % gradients_of_sum(rule, all) != 0 && !partial) continue;
      sum_position_[s].push_back(number(Rank(r), placement.stages[s].front(),
                                        {.opcode = Opcode::receive_weight_gradient,
                                         .stage = op.stage,
                                         .micro = Micro(sum_position_[s].size()),
                                         .peer_stage = op.stage}));
    }
    if (step_barrier && r > 0) number(Rank(r), Rank(0), {.opcode = Opcode::receive_stepped});
  }
  if (step_barrier)
    for (std::size_t r = 1; r < ranks; ++r) number(Rank(0), Rank(r), {.opcode = Opcode::receive_stepped});
}

// The values that `op` makes for, or takes from, the ops of its neighbours over `edges` that are on other ranks.
template <class Visit>
void Messages::for_each_value(const Op& op, const std::vector<std::size_t>& edges, bool down, Visit visit) const {
  const Rank own = home(op);
  for (const std::size_t edge : edges) {
    const StageId peer = down ? edges_[edge].second : edges_[edge].first;
    const auto [first, last] = messages_of(graph_, op.stage, op.micro, peer);
    for (Micro m(first); m.value < last; ++m.value) {
      const Rank rank = placement_.rank_of(peer, op_of_message(graph_, peer, m, op.stage));
      if (rank != own) visit(EdgeValue{edge, peer, m, rank});
    }
  }
}

template <class Visit>
void Messages::for_each_output(const Op& op, Visit visit) const {
  if (op.kind == OpKind::weight_gradient) return;
  const bool forward = op.kind == OpKind::forward;
  const StageEdges& edges = edges_of_[op.stage.index()];
  for_each_value(op, forward ? edges.down : edges.up, forward, visit);
}

int Messages::open_channel(Rank from, Rank to) {
  const auto [found, fresh] = channel_of_.try_emplace(ends(from, to), static_cast<int>(channels_.size()));
  if (fresh) {
    channels_.push_back({from, to, 0});
    receives_.emplace_back();
  }
  return found->second;
}

// Between every two ranks of an edge, message k + room waits for the credit of message k.
void Messages::find_credits(const Schedule& schedule, int queue) {
  for (const auto& ops : schedule.ranks) {
    const bool one_stage = std::ranges::all_of(ops, [&](const Op& op) { return op.stage == ops.front().stage; });
    if (!one_stage || !std::ranges::is_sorted(ops, {}, &Op::micro)) return;
  }
  credit_of_.assign(edges_.size() * microbatches_, -1);
  credit_position_.assign(edges_.size() * microbatches_, -1);
  gives_credit_.assign(edges_.size() * microbatches_, false);
  std::vector<int> room;
  for (const auto& [from, to] : edges_) room.push_back(queue_room(graph_, from, to, queue));
  for (const auto& ops : schedule.ranks) {
    std::map<std::pair<std::size_t, Rank>, std::vector<Micro>> made;  // by edge and receiver
    for (const Op& op : ops)
      for_each_output(op, [&](const EdgeValue& value) {
        check_stop();
        std::vector<Micro>& list = made[{value.edge, value.rank}];
        list.push_back(value.message);
        const auto most = static_cast<std::size_t>(room[value.edge]);
        if (list.size() <= most) return;
        const Micro before = list[list.size() - 1 - most];
        credit_of_[slot(value.edge, value.message)] = before.value;
        gives_credit_[slot(value.edge, before)] = true;
      });
  }
}

void Messages::number_credits(const Op& op) {
  for_each_value(op, edges_of_[op.stage.index()].up, false, [&](const EdgeValue& value) {
    const std::size_t k = slot(value.edge, value.message);
    if (!gives_credit_[k]) return;
    credit_position_[k] =
        number(home(op), value.rank,
               {.opcode = Opcode::receive_credit, .stage = value.peer, .micro = value.message, .peer_stage = op.stage});
  });
}

// Gives a message its place in its channel.
std::int32_t Messages::number(Rank from, Rank to, Instruction receive) {
  receive.channel = open_channel(from, to);
  const auto c = static_cast<std::size_t>(receive.channel);
  receives_[c].push_back(receive);
  return channels_[c].messages++;
}

void Messages::number_outputs(const Op& op) {
  const bool gradient = op.kind != OpKind::forward;
  for_each_output(op, [&](const EdgeValue& value) {
    Instruction receive{.opcode = gradient ? Opcode::receive_gradient : Opcode::receive_activation,
                        .stage = value.peer,
                        .micro = value.message,
                        .peer_stage = op.stage};
    position_[slot(value.edge, value.message, gradient)] = number(home(op), value.rank, receive);
  });
  if (op.kind != OpKind::input_gradient || !placement_.has_weight_gradient_rank(op.stage)) return;
  stash_position_[slot(op)] =
      number(home(op), weight_gradient_rank(op.stage),
             {.opcode = Opcode::receive_stash, .stage = op.stage, .micro = op.micro, .peer_stage = op.stage});
}

void Messages::add_inputs(const Op& op, std::vector<Awaited>& awaited) const {
  if (op.kind == OpKind::weight_gradient) {
    if (placement_.has_weight_gradient_rank(op.stage))
      awaited.push_back({channel(home(op), weight_gradient_rank(op.stage)), stash_position_[slot(op)]});
    return;
  }
  const bool gradient = op.kind != OpKind::forward;
  const StageEdges& edges = edges_of_[op.stage.index()];
  for_each_value(op, gradient ? edges.down : edges.up, gradient, [&](const EdgeValue& value) {
    awaited.push_back({channel(value.rank, home(op)), position_[slot(value.edge, value.message, gradient)]});
  });
  if (credit_of_.empty()) return;
  for_each_output(op, [&](const EdgeValue& value) {
    const std::int32_t before = credit_of_[slot(value.edge, value.message)];
    if (before >= 0)
      awaited.push_back({channel(value.rank, home(op)), credit_position_[slot(value.edge, Micro(before))]});
  });
}

void Messages::add_credits(const Op& op, std::vector<Instruction>& sends) const {
  if (credit_of_.empty()) return;
  for_each_value(op, edges_of_[op.stage.index()].up, false, [&](const EdgeValue& value) {
    if (!gives_credit_[slot(value.edge, value.message)]) return;
    sends.push_back({.opcode = Opcode::send_credit,
                     .stage = op.stage,
                     .micro = value.message,
                     .peer_stage = value.peer,
                     .channel = channel(home(op), value.rank)});
  });
}

void Messages::add_sends(const Op& op, std::vector<Instruction>& sends) const {
  const Opcode opcode = op.kind == OpKind::forward ? Opcode::send_activation : Opcode::send_gradient;
  for_each_output(op, [&](const EdgeValue& value) {
    sends.push_back({.opcode = opcode,
                     .stage = op.stage,
                     .micro = value.message,
                     .peer_stage = value.peer,
                     .channel = channel(home(op), value.rank)});
  });
  if (op.kind != OpKind::input_gradient || !placement_.has_weight_gradient_rank(op.stage)) return;
  sends.push_back({.opcode = Opcode::send_stash,
                   .stage = op.stage,
                   .micro = op.micro,
                   .peer_stage = op.stage,
                   .channel = channel(home(op), weight_gradient_rank(op.stage))});
}

int Messages::weight_gradient_sums(StageId stage) const {
  return static_cast<int>(sum_position_[stage.index()].size());
}

Messages::Awaited Messages::weight_gradient_sum(StageId stage, int update) const {
  return {channel(weight_gradient_rank(stage), placement_.stages[stage.index()].front()),
          sum_position_[stage.index()][update]};
}

Instruction Messages::send_weight_gradient_sum(StageId stage, int update) const {
  return {.opcode = Opcode::send_weight_gradient,
          .stage = stage,
          .micro = Micro(update),
          .peer_stage = stage,
          .channel = channel(weight_gradient_rank(stage), placement_.stages[stage.index()].front())};
}

Messages::Awaited Messages::last_of(Rank from, Rank to) const {
  const int c = channel(from, to);
  return {c, channels_[c].messages - 1};
}

Instruction Messages::send_stepped(Rank from, Rank to) const {
  return {.opcode = Opcode::send_stepped, .channel = channel(from, to)};
}

}  // namespace sluice
