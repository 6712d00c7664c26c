#include "harness/pipeline/orders.h"

#include <algorithm>

namespace sluice::orders {

Schedule fill_drain(const ScheduleProblem& problem, BackwardOrder backward) {
  Schedule schedule = empty_schedule(problem);
  const int m = problem.microbatches;
  for (int s = 0; s < problem.stages(); ++s)
    for (int i = 0; i < m; ++i) schedule.ops(problem.rank_of(s)).push_back(forward_op(s, i));
  for (int s = problem.stages() - 1; s >= 0; --s)
    for (int i = 0; i < m; ++i)
      schedule.ops(problem.rank_of(s)).push_back(backward_op(s, backward == BackwardOrder::lifo ? m - 1 - i : i));
  return schedule;
}

Schedule one_f_one_b(const ScheduleProblem& problem, OpKind backward) {
  Schedule schedule = empty_schedule(problem);
  const int m = problem.microbatches;
  for (int s = 0; s < problem.stages(); ++s) {
    auto& ops = schedule.ops(problem.rank_of(s));
    ops.reserve(2 * static_cast<std::size_t>(m));
    const auto add = [&](OpKind kind, int i) { ops.push_back({kind, StageId(s), Micro(i)}); };
    one_forward_one_backward(
        m, std::min(problem.stages() - 1 - s, m), [&](int i) { add(OpKind::forward, i); },
        [&](int i) { add(backward, i); });
  }
  return schedule;
}

Schedule one_micro_batch_at_a_time(const ScheduleProblem& problem) {
  Schedule schedule = empty_schedule(problem);
  for (int i = 0; i < problem.microbatches; ++i) {
    const auto add = [&](const Op& op) { schedule.ops(problem.placement.rank_of(op)).push_back(op); };
    for (int s = 0; s < problem.stages(); ++s) add(forward_op(s, i));
    for (int s = problem.stages() - 1; s >= 0; --s) add(backward_op(s, i));
  }
  return schedule;
}

Schedule on_ranks(const StageOrders& orders, const Placement& placement, int ranks, int microbatches) {
  Schedule schedule = empty_schedule(ranks, microbatches);
  for (const std::vector<Op>& ops : orders)
    for (const Op& op : ops) schedule.ops(placement.rank_of(op.stage, op.micro)).push_back(op);
  return schedule;
}

}  // namespace sluice::orders
