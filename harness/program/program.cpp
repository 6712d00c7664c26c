#include "harness/program/program.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace sluice {

Instruction other_end(Instruction message) {
  std::swap(message.stage, message.peer_stage);
  message.opcode = static_cast<Opcode>(static_cast<int>(message.opcode) + (is_send(message.opcode) ? 1 : -1));
  return message;
}

// Per opcode, of: {0} stage, {1} edge of a send, {2} edge of a receive, {3} micro-batch.
static constexpr std::array kTexts = {"{0}F{3}",
                                      "{0}B{3}",
                                      "{0}I{3}",
                                      "{0}W{3}",
                                      "{0}R{3}",
                                      "send_activation {1} {3}",
                                      "receive_activation {2} {3}",
                                      "send_gradient {1} {3}",
                                      "receive_gradient {2} {3}",
                                      "send_stash {0} {3}",
                                      "receive_stash {0} {3}",
                                      "send_weight_gradient {0}",
                                      "receive_weight_gradient {0}",
                                      "send_stepped",
                                      "receive_stepped",
                                      "send_credit {1} {3}",
                                      "receive_credit {2} {3}",
                                      "reduce {0}",
                                      "reduce_copies {0}",
                                      "reduce_norm",
                                      "step {0}",
                                      "gather {0}",
                                      "free {0}",
                                      "reduce_scatter {0}",
                                      "stash_out {0} {3}",
                                      "stash_free {0} {3}",
                                      "stash_back {0} {3}"};
static_assert(kTexts.size() == static_cast<std::size_t>(Opcode::stash_back) + 1);

std::string to_text(const Instruction& i, int sequence_chunks) {
  const int stage = i.stage.value, peer = i.peer_stage.value;
  return fmt::format(fmt::runtime(kTexts[static_cast<std::size_t>(i.opcode)]), stage,
                     fmt::format("{}->{}", stage, peer), fmt::format("{}->{}", peer, stage),
                     micro_text(i.micro, sequence_chunks));
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
