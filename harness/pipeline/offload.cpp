#include "harness/pipeline/offload.h"

#include <map>

namespace sluice {

Offload offload_all(const Schedule& schedule) {
  Offload offload;
  for (const std::vector<Op>& ops : schedule.ranks) {
    std::vector<StashMove>& moves = offload.ranks.emplace_back();
    std::map<std::pair<StageId, Micro>, std::size_t> forwards;
    for (std::size_t k = 0; k < ops.size(); ++k) {
      const Op& op = ops[k];
      if (op.kind == OpKind::forward) forwards[{op.stage, op.micro}] = k;
      if (op.kind != OpKind::backward && op.kind != OpKind::input_gradient) continue;
      const std::size_t forward = forwards.at({op.stage, op.micro});
      if (forward + 3 > k) continue;
      moves.push_back({StashMove::Kind::out, forward + 1, op.stage, op.micro});
      moves.push_back({StashMove::Kind::free, forward + 2, op.stage, op.micro});
      moves.push_back({StashMove::Kind::back, k - 1, op.stage, op.micro});
    }
    std::ranges::stable_sort(moves, {}, &StashMove::before);
  }
  return offload;
}

}  // namespace sluice
