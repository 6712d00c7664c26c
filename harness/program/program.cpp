#include "harness/program/program.h"

#include <utility>

namespace sluice {

Instruction other_end(Instruction message) {
  std::swap(message.stage, message.peer_stage);
  if (is_send(message.opcode)) {
    message.opcode = matching_receive(message.opcode);
    return message;
  }
  for (const Opcode send : {Opcode::send_activation, Opcode::send_gradient, Opcode::send_stash,
                            Opcode::send_weight_gradient, Opcode::send_stepped, Opcode::send_credit})
    if (matching_receive(send) == message.opcode) {
      message.opcode = send;
      break;
    }
  return message;
}

std::string to_text(const Instruction& i, int sequence_chunks) {
  const std::string edge = std::to_string(i.stage.value) + "->" + std::to_string(i.peer_stage.value);
  const std::string from = std::to_string(i.peer_stage.value) + "->" + std::to_string(i.stage.value);
  const std::string micro = micro_text(i.micro, sequence_chunks);
  const std::string stage = std::to_string(i.stage.value);
  switch (i.opcode) {
    case Opcode::forward:
      return stage + "F" + micro;
    case Opcode::backward:
      return stage + "B" + micro;
    case Opcode::input_gradient:
      return stage + "I" + micro;
    case Opcode::weight_gradient:
      return stage + "W" + micro;
    case Opcode::recompute:
      return stage + "R" + micro;
    case Opcode::send_activation:
      return "send_activation " + edge + " " + micro;
    case Opcode::receive_activation:
      return "receive_activation " + from + " " + micro;
    case Opcode::send_gradient:
      return "send_gradient " + edge + " " + micro;
    case Opcode::receive_gradient:
      return "receive_gradient " + from + " " + micro;
    case Opcode::send_stash:
      return "send_stash " + stage + " " + micro;
    case Opcode::receive_stash:
      return "receive_stash " + stage + " " + micro;
    case Opcode::send_weight_gradient:
      return "send_weight_gradient " + stage;
    case Opcode::receive_weight_gradient:
      return "receive_weight_gradient " + stage;
    case Opcode::send_stepped:
      return "send_stepped";
    case Opcode::receive_stepped:
      return "receive_stepped";
    case Opcode::send_credit:
      return "send_credit " + edge + " " + micro;
    case Opcode::receive_credit:
      return "receive_credit " + from + " " + micro;
    case Opcode::reduce_gradients:
      return "reduce " + stage;
    case Opcode::reduce_copies:
      return "reduce_copies " + stage;
    case Opcode::reduce_norm:
      return "reduce_norm";
    case Opcode::optimizer_step:
      return "step " + stage;
    case Opcode::gather_weights:
      return "gather " + stage;
    case Opcode::free_weights:
      return "free " + stage;
    case Opcode::reduce_scatter:
      return "reduce_scatter " + stage;
    case Opcode::stash_out:
      return "stash_out " + stage + " " + micro;
    case Opcode::stash_free:
      return "stash_free " + stage + " " + micro;
    case Opcode::stash_back:
      return "stash_back " + stage + " " + micro;
  }
  return "?";
}

std::vector<std::vector<Rank>> collective_groups(const Program& program) {
  std::vector<std::vector<Rank>> groups = program.placement.stages;
  groups.insert(groups.end(), program.step_groups.begin(), program.step_groups.end());
  if (program.tensor == 1) return groups;
  for (std::size_t r = 0; r < program.rank_count(); ++r) {
    if (r % static_cast<std::size_t>(program.tensor) == 0) groups.emplace_back();
    groups.back().emplace_back(r);
  }
  return groups;
}

}  // namespace sluice
