#include "harness/sim/message_bytes.h"

#include <gtest/gtest.h>

#include <map>

#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/made_cluster.h"

namespace sluice {
namespace {

// Two stages: 50 bytes of activation, of which the sender copies 20, and 10 bytes more of gradient. Stage 0 has 600
// bytes of weights and 300 of gradients (16 bit), and 70 bytes of stash for a W elsewhere.
Costs costs_of_two_stages() {
  Costs costs = uniform_costs(2, 1, 1, 1);
  costs.stages[0].parameters = Bytes(600);
  costs.stages[0].gradient_bytes = Bytes(300);
  costs.edges = {{.from = StageId(0), .to = StageId(1), .bytes = Bytes(50), .copied = Bytes(20), .passed = Bytes(10)}};
  costs.weight_stash = {Bytes(70), Bytes(0)};
  return costs;
}

Program program_of(const StageGraph& graph) {
  return lower(parse_schedule("rank 0: 0F0 0B0\nrank 1: 1F0 1B0\n"), graph, one_stage_per_rank(2), WeightRule{});
}

TEST(MessageBytesTest, EveryOpcodeHoldsWhatItsKindSays) {
  const Costs costs = costs_of_two_stages();
  const Program program = program_of(chain(2));
  const MessageBytes message_bytes(program, costs);
  const std::map<Opcode, double> expected = {{Opcode::send_activation, 50},
                                             {Opcode::receive_activation, 50},
                                             {Opcode::send_gradient, 60},
                                             {Opcode::receive_gradient, 60},
                                             {Opcode::send_stash, 70},
                                             {Opcode::receive_stash, 70},
                                             {Opcode::send_weight_gradient, 300},
                                             {Opcode::receive_weight_gradient, 300}};
  for (int k = 0; k <= static_cast<int>(Opcode::stash_back); ++k) {
    const auto opcode = static_cast<Opcode>(k);
    const Instruction i{.opcode = opcode, .stage = StageId(0), .micro = Micro(0), .peer_stage = StageId(1)};
    const auto found = expected.find(opcode);
    EXPECT_DOUBLE_EQ(message_bytes.of(i), found == expected.end() ? 0 : found->second) << to_text(i);
    EXPECT_DOUBLE_EQ(message_bytes.copied(i), opcode == Opcode::send_activation ? 20 : 0) << to_text(i);
  }
}

TEST(MessageBytesTest, BothEndsOfAChannelAgree) {
  const Costs costs = costs_of_two_stages();
  const Program program = program_of(chain(2));
  const MessageBytes message_bytes(program, costs);
  std::vector<double> sent(program.channels.size()), received(program.channels.size());
  for (const auto& rank : program.ranks)
    for (const Instruction& i : rank)
      if (is_message(i.opcode)) (is_send(i.opcode) ? sent : received)[i.channel] += message_bytes.of(i);
  EXPECT_EQ(sent, received);
  EXPECT_DOUBLE_EQ(sent[0] + sent[1], 50 + 60);
}

TEST(MessageBytesTest, AMessageOfSeveralMicroBatchesOrOfAChunkHasItsShare) {
  Costs costs = costs_of_two_stages();
  costs.chunk_positions = {0.75, 0.25};
  Program program = program_of(chain(2));
  program.graph.microbatches_per_op = {2, 4};
  program.sequence_chunks = 2;
  const MessageBytes message_bytes(program, costs);
  Instruction i{.opcode = Opcode::send_activation, .stage = StageId(0), .micro = Micro(0), .peer_stage = StageId(1)};
  EXPECT_DOUBLE_EQ(message_bytes.of(i), 2 * 0.75 * 50);
  i.micro = Micro(1);
  EXPECT_DOUBLE_EQ(message_bytes.of(i), 2 * 0.25 * 50);
}

TEST(MessageBytesTest, StagesWithoutAnEdgeInTheCostsExchangeNothing) {
  Costs costs = uniform_costs(2, 1, 1, 1);
  const Program program = program_of(chain(2));
  const MessageBytes message_bytes(program, costs);
  for (const auto& rank : program.ranks)
    for (const Instruction& i : rank) EXPECT_DOUBLE_EQ(message_bytes.of(i), 0);
}

}  // namespace
}  // namespace sluice
