#include "harness/program/staleness.h"

#include <algorithm>
#include <map>
#include <optional>

namespace sluice {

// A late step (WeightRule::weight_gradient_delay) takes the gradients of its own micro-batches only; any other step
// takes all that are there.
static int staleness_of(const Program& program, const std::vector<Instruction>& instructions) {
  struct OfStage {
    std::vector<std::optional<std::int32_t>> read;  // [micro-batch]: by its forward
    std::vector<std::int32_t> waiting;              // read by micro-batches whose gradient no step has taken
  };
  std::map<StageId, OfStage> stages;
  std::int32_t most = 0;
  for (const Instruction& i : instructions) {
    switch (i.opcode) {
      case Opcode::forward: {
        auto& read = stages[i.stage].read;
        if (read.size() <= i.micro.index()) read.resize(i.micro.index() + 1);
        read[i.micro.index()] = i.version;
      } break;
      case Opcode::backward:
      case Opcode::input_gradient: {
        OfStage& stage = stages[i.stage];
        if (i.micro.index() < stage.read.size() && stage.read[i.micro.index()])
          stage.waiting.push_back(*stage.read[i.micro.index()]);
      } break;
      case Opcode::optimizer_step: {
        std::vector<std::int32_t>& list = stages[i.stage].waiting;
        const bool late = !program.rule.synchronous() && program.placement.has_weight_gradient_rank(i.stage);
        const auto taken =
            late ? std::min(list.size(), static_cast<std::size_t>(program.rule.accumulate)) : list.size();
        for (std::size_t k = 0; k < taken; ++k) most = std::max(most, i.version - 1 - list[k]);
        list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(taken));
      } break;
      default:
        break;
    }
  }
  return most;
}

std::vector<int> staleness_of(const Program& program) {
  std::vector<int> ranks;
  for (const std::vector<Instruction>& instructions : program.ranks)
    ranks.push_back(staleness_of(program, instructions));
  return ranks;
}

}  // namespace sluice
