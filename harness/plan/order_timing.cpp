#include "harness/plan/order_timing.h"

#include <algorithm>

namespace sluice {

OrderTiming time_order(const StageOrders& orders, const ChainSeconds& seconds) {
  constexpr double kNotYet = -1;
  const std::size_t stages = orders.size(), microbatches = seconds.forward.front().size();
  std::vector<std::vector<double>> forward(stages, std::vector<double>(microbatches, kNotYet)),
      backward = forward;  // ends
  OrderTiming timing{std::vector<std::vector<double>>(stages), std::vector<std::vector<double>>(stages)};
  // When the input of an op is there; kNotYet: what makes it has not run.
  const auto input = [&](std::size_t s, const Op& op) {
    const std::size_t m = op.micro.index();
    if (op.kind == OpKind::forward && s == 0) return 0.0;
    if (op.kind != OpKind::forward && s + 1 == stages) return forward[s][m];
    const double made = op.kind == OpKind::forward ? forward[s - 1][m] : backward[s + 1][m];
    return made == kNotYet ? kNotYet : made + seconds.message;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < stages; ++s)
      while (timing.end[s].size() < orders[s].size()) {
        const Op& op = orders[s][timing.end[s].size()];
        const double there = input(s, op);
        if (there == kNotYet) break;
        const bool is_forward = op.kind == OpKind::forward;
        const double free = timing.end[s].empty() ? 0 : timing.end[s].back(), begin = std::max(free, there);
        const double end = begin + (is_forward ? seconds.forward : seconds.backward)[s][op.micro.index()];
        timing.begin[s].push_back(begin);
        timing.end[s].push_back(end);
        (is_forward ? forward : backward)[s][op.micro.index()] = end;
        timing.makespan = std::max(timing.makespan, end);
        moved = true;
      }
  }
  return timing;
}

}  // namespace sluice
