#include "harness/sim/communication.h"

#include <algorithm>

#include "harness/sim/message_bytes.h"

namespace sluice {

std::vector<TensorSums> tensor_sums(const Program& program, const TensorModel& model, const Plan& plan,
                                    std::int64_t micro_batch, std::int64_t element) {
  std::vector<TensorSums> forward, input_gradient;  // by stage
  for (const PlanStage& stage : plan.stages) {
    forward.push_back(forward_sums(model, stage.layers, micro_batch, element));
    input_gradient.push_back(input_gradient_sums(model, stage.layers, micro_batch, element));
  }
  std::vector<TensorSums> result(program.rank_count());
  for (std::size_t r = 0; r < program.rank_count(); ++r)
    for (const Instruction& i : program.ranks[r]) {
      if (i.opcode == Opcode::forward || i.opcode == Opcode::recompute) result[r] += forward[i.stage.index()];
      if (i.opcode == Opcode::backward || i.opcode == Opcode::input_gradient)
        result[r] += input_gradient[i.stage.index()];
    }
  return result;
}

std::vector<SentBytes> sent_bytes(const Program& program, const Costs& costs) {
  const MessageBytes message_bytes(program, costs);
  const auto cost = [&](const Instruction& i) -> const StageCost& { return costs.stages[i.stage.index()]; };
  const auto ring = [&](const Instruction& i, Bytes whole) {
    const auto n = static_cast<double>(program.placement.stages[i.stage.index()].size());
    return static_cast<double>(whole.value) * (n - 1) / n;
  };
  std::vector<SentBytes> result(program.ranks.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    SentBytes& sent = result[r];
    for (const Instruction& i : program.ranks[r]) {
      if (is_send(i.opcode))
        sent.messages += message_bytes.of(i);
      else if (i.opcode == Opcode::gather_weights)
        sent.gathers += ring(i, cost(i).parameters);
      else if (i.opcode == Opcode::reduce_scatter)
        sent.reductions += ring(i, cost(i).gradients());
      else if (i.opcode == Opcode::reduce_gradients)
        sent.reductions += 2 * ring(i, cost(i).gradients());
    }
    const double updates = std::max(program.updates, 1);
    sent.messages /= updates;
    sent.gathers /= updates;
    sent.reductions /= updates;
  }
  return result;
}

}  // namespace sluice
