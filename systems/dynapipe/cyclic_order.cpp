#include "systems/dynapipe/cyclic_order.h"

#include <algorithm>
#include <deque>

namespace sluice {

std::optional<StageOrders> cyclic_order(int stages, std::span<const int> entering, const HoldingLimit* limit) {
  struct Stage {
    std::deque<int> forwards, backwards;
    double held = 0;
  };
  std::vector<Stage> all(static_cast<std::size_t>(stages));
  all.front().forwards.assign(entering.begin(), entering.end());
  StageOrders orders(all.size());
  std::size_t left = 2 * all.size() * entering.size();
  while (left > 0) {
    const std::size_t before = left;
    std::vector<std::pair<std::deque<int>*, int>> next;  // what enters which queue at the end of the cycle
    for (int s = 0; s < stages; ++s) {
      Stage& stage = all[s];
      if (!stage.backwards.empty()) {
        const int micro = stage.backwards.front();
        stage.backwards.pop_front();
        if (limit) stage.held -= limit->held[s][micro];
        orders[s].push_back(backward_op(s, micro));
        if (s > 0) next.emplace_back(&all[s - 1].backwards, micro);
        --left;
      }
      if (stage.forwards.empty()) continue;
      const int micro = stage.forwards.front();
      if (limit && stage.held + limit->held[s][micro] > limit->limit[s]) continue;
      stage.forwards.pop_front();
      if (limit) stage.held += limit->held[s][micro];
      orders[s].push_back(forward_op(s, micro));
      next.emplace_back(s + 1 < stages ? &all[s + 1].forwards : &stage.backwards, micro);
      --left;
    }
    if (left == before) return std::nullopt;
    for (const auto& [queue, micro] : next) queue->push_back(micro);
  }
  return orders;
}

bool keeps(const StageOrders& orders, const HoldingLimit& limit) {
  for (std::size_t s = 0; s < orders.size(); ++s) {
    double held = 0;
    for (const Op& op : orders[s]) {
      const double own = limit.held[s][op.micro.index()];
      held += op.kind == OpKind::forward ? own : -own;
      if (held > limit.limit[s]) return false;
    }
  }
  return true;
}

}  // namespace sluice
