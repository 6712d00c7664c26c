#include "harness/program/messages.h"

namespace sluice {

Messages::Messages(const Schedule& schedule, const StageGraph& graph, const Placement& placement, bool step_barrier)
    : graph_(graph), placement_(placement), micros_(static_cast<std::size_t>(schedule.microbatches)) {
  edges_of_.resize(graph.size());
  for (std::size_t s = 0; s < graph.size(); ++s)
    for (const StageId t : graph.successors[s]) {
      edges_of_[s].down.push_back(edges_.size());
      edges_of_[t.index()].up.push_back(edges_.size());
      edges_.push_back({StageId(s), t});
    }
  position_.assign(edges_.size() * micros_ * 2, 0);
  if (!placement.weight_gradient_ranks.empty()) {
    stash_position_.assign(graph.size() * micros_, 0);
    sum_position_.assign(graph.size(), 0);
  }
  const std::size_t ranks = schedule.ranks.size();
  for (std::size_t r = 0; r < ranks; ++r) {
    std::vector<int> weight_gradients(graph.size(), 0);
    for (const Op& op : schedule.ranks[r]) {
      number_outputs(op);
      if (op.kind != OpKind::weight_gradient || !placement.has_weight_gradient_rank(op.stage)) continue;
      const std::size_t s = op.stage.index();
      if (++weight_gradients[s] != schedule.microbatches / graph.micros_per_op_of(op.stage)) continue;
      Instruction sum{.opcode = Opcode::receive_weight_gradient, .stage = op.stage};
      sum.peer_stage = op.stage;
      sum_position_[s] = number(Rank(r), placement.stages[s].front(), sum);
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
  const auto [found, fresh] = channel_of_.try_emplace({from, to}, static_cast<int>(channels_.size()));
  if (fresh) {
    channels_.push_back({from, to, 0});
    receives_.emplace_back();
  }
  return found->second;
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

Messages::Awaited Messages::weight_gradient_sum(StageId stage) const {
  return {channel(weight_gradient_rank(stage), placement_.stages[stage.index()].front()), sum_position_[stage.index()]};
}

Instruction Messages::send_weight_gradient_sum(StageId stage) const {
  return {.opcode = Opcode::send_weight_gradient,
          .stage = stage,
          .peer_stage = stage,
          .channel = channel(weight_gradient_rank(stage), placement_.stages[stage.index()].front())};
}

Messages::Awaited Messages::last_of(Rank from, Rank to) const {
  const int c = channel(from, to);
  return {c, channels_[static_cast<std::size_t>(c)].messages - 1};
}

Instruction Messages::send_stepped(Rank from, Rank to) const {
  return {.opcode = Opcode::send_stepped, .channel = channel(from, to)};
}

}  // namespace sluice
