#include "harness/program/staleness.h"

#include <algorithm>
#include <map>
#include <utility>

namespace sluice {

// A late step (WeightRule::weight_gradient_delay) takes the gradients of its own micro-batches only; any other step
// takes all that are there.
static int staleness_of(const Program& program, const std::vector<Instruction>& instructions) {
  std::map<std::pair<StageId, Micro>, std::int32_t> read;  // by forwards
  std::map<StageId, std::vector<std::int32_t>> waiting;    // read by micro-batches whose gradient no step has taken
  std::int32_t most = 0;
  for (const Instruction& i : instructions) {
    switch (i.opcode) {
      case Opcode::forward:
        read[{i.stage, i.micro}] = i.version;
        break;
      case Opcode::backward:
      case Opcode::input_gradient:
        if (const auto found = read.find({i.stage, i.micro}); found != read.end())
          waiting[i.stage].push_back(found->second);
        break;
      case Opcode::optimizer_step: {
        std::vector<std::int32_t>& list = waiting[i.stage];
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
