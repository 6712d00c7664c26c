#include "harness/sim/communication.h"

#include <algorithm>

#include "harness/model/expert_spread.h"
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

std::vector<TensorSums> expert_exchanges(const Program& program, const ModelGraph& model, const Plan& plan,
                                         std::int64_t micro_batch, std::int64_t element) {
  const std::vector<ExpertExchanges> of_layers = expert_exchanges(model);
  std::vector<TensorSums> forward, input_gradient;  // by stage, of one sample
  for (const PlanStage& stage : plan.stages) {
    TensorSums &f = forward.emplace_back(), &i = input_gradient.emplace_back();
    for (const int l : stage.layers) {
      for (const std::int64_t elements : of_layers[l].forward) f += {1, elements * element};
      for (const std::int64_t elements : of_layers[l].input_gradient) i += {1, elements * element};
    }
  }
  std::vector<TensorSums> result(program.rank_count());
  for (std::size_t r = 0; r < program.rank_count(); ++r)
    for (const Instruction& i : program.ranks[r]) {
      if (!reads_weights(i.opcode)) continue;
      const std::int64_t samples = program.sizes.differ() ? program.sizes.of(i.micro) : micro_batch;
      const auto add = [&](const TensorSums& once) { result[r] += {once.count, once.bytes * samples}; };
      if (i.opcode == Opcode::forward || i.opcode == Opcode::recompute)
        add(forward[i.stage.index()]);
      else
        add(input_gradient[i.stage.index()]);
    }
  return result;
}

double reduced_bytes(const Program& program, const Instruction& all_reduce, const Costs& costs) {
  const Bytes bytes = all_reduce.opcode == Opcode::reduce_norm     ? costs.norm
                      : all_reduce.opcode == Opcode::reduce_copies ? costs.copies[program.weight_of(all_reduce)]
                                                                   : costs.stages[all_reduce.stage.index()].gradients();
  return static_cast<double>(bytes.value);
}

std::vector<SentBytes> sent_bytes(const Program& program, const Costs& costs) {
  const MessageBytes message_bytes(program, costs);
  const auto cost = [&](const Instruction& i) -> const StageCost& { return costs.stages[i.stage.index()]; };
  const std::vector<std::vector<Rank>> groups = collective_groups(program);
  const auto ring = [&](const Instruction& i, double whole) {
    const auto n = static_cast<double>(groups[static_cast<std::size_t>(i.channel)].size());
    return whole * (n - 1) / n;
  };
  std::vector<SentBytes> result(program.ranks.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    SentBytes& sent = result[r];
    for (const Instruction& i : program.ranks[r]) {
      if (is_send(i.opcode))
        sent.messages += message_bytes.of(i);
      else if (i.opcode == Opcode::gather_weights)
        sent.gathers += ring(i, static_cast<double>(cost(i).parameters.value));
      else if (i.opcode == Opcode::reduce_scatter)
        sent.reductions += ring(i, static_cast<double>(cost(i).gradients().value));
      else if (is_all_reduce(i.opcode))
        sent.reductions += 2 * ring(i, reduced_bytes(program, i, costs));
    }
    const double updates = std::max(program.updates, 1);
    sent.messages /= updates;
    sent.gathers /= updates;
    sent.reductions /= updates;
  }
  return result;
}

}  // namespace sluice
