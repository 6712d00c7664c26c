#include "harness/sim/message_bytes.h"

#include <algorithm>

namespace sluice {

MessageBytes::MessageBytes(const Program& program, const Costs& costs) : program_(program), costs_(costs) {
  for (const Costs& of_size : costs.of_size) edges_.push_back(edges_of(of_size));
  if (!program.sizes.differ()) edges_ = {edges_of(costs)};
}

MessageBytes::Edges MessageBytes::edges_of(const Costs& costs) const {
  Edges result(program_.graph.size());
  for (const SimulatedEdge& e : costs.edges) {
    const auto activation = static_cast<double>(e.bytes.value),
               gradient = static_cast<double>((e.bytes + e.passed).value), copied = static_cast<double>(e.copied.value);
    result[e.from.index()].push_back({e.to, activation, gradient, copied});
    result[e.to.index()].push_back({e.from, activation, gradient, copied});
  }
  return result;
}

double MessageBytes::size(const Instruction& message) const {
  return microbatches_per_message(program_.graph, message.stage, message.peer_stage) *
         costs_.part_of_message(program_, message);
}

const MessageBytes::Edge& MessageBytes::edge(const Instruction& message) const {
  static const Edge kNone;
  const int size = program_.sizes.differ() ? program_.sizes.index_of(message.micro) : 0;
  const std::vector<Edge>& edges = edges_[size][message.stage.index()];
  const auto found = std::ranges::find(edges, message.peer_stage, &Edge::peer);
  return found == edges.end() ? kNone : *found;
}

double MessageBytes::of(const Instruction& message) const {
  switch (message.opcode) {
    case Opcode::send_activation:
    case Opcode::receive_activation:
      return edge(message).activation * size(message);
    case Opcode::send_gradient:
    case Opcode::receive_gradient:
      return edge(message).gradient * size(message);
    case Opcode::send_stash:
    case Opcode::receive_stash: {
      const std::vector<Bytes>& stashes = costs_.at(program_, message.micro).weight_stash;
      return stashes.empty() ? 0 : static_cast<double>(stashes[message.stage.index()].value);
    }
    case Opcode::send_weight_gradient:
    case Opcode::receive_weight_gradient:
      return static_cast<double>(costs_.stages[message.stage.index()].gradients().value);
    default:
      return 0;
  }
}

double MessageBytes::copied(const Instruction& send) const {
  return send.opcode == Opcode::send_activation ? edge(send).copied * size(send) : 0;
}

}  // namespace sluice
