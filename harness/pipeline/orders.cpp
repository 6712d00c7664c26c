#include "harness/pipeline/orders.h"

#include <algorithm>

namespace sluice::orders {

OpRule fill_drain_rule(int microbatches, BackwardOrder backward) {
  return [m = microbatches, lifo = backward == BackwardOrder::lifo](int stage, std::int64_t k) {
    const int i = static_cast<int>(k % m);
    return k < m ? forward_op(stage, i) : backward_op(stage, lifo ? m - 1 - i : i);
  };
}

Schedule fill_drain(const ScheduleProblem& problem, BackwardOrder backward) {
  Schedule schedule = empty_schedule(problem);
  const int m = problem.microbatches;
  const OpRule rule = fill_drain_rule(m, backward);
  const auto add = [&](int s, int first, int last) {
    for (int k = first; k < last; ++k) schedule.ops(problem.rank_of(s)).push_back(rule(s, k));
  };
  for (int s = 0; s < problem.stages(); ++s) add(s, 0, m);
  for (int s = problem.stages() - 1; s >= 0; --s) add(s, m, 2 * m);
  return schedule;
}

OpRule one_f_one_b_rule(int stages, int microbatches, OpKind backward) {
  return [p = stages, m = microbatches, backward](int stage, std::int64_t k) {
    const int warm_up = std::min(p - 1 - stage, m);
    const auto op = [stage](OpKind kind, std::int64_t i) {
      return Op{kind, StageId(stage), Micro(static_cast<int>(i))};
    };
    const std::int64_t in_turn = k - warm_up;
    if (in_turn < 0) return op(OpKind::forward, k);
    if (in_turn >= 2LL * (m - warm_up)) return op(backward, k - m);
    return in_turn % 2 == 0 ? op(OpKind::forward, warm_up + in_turn / 2) : op(backward, in_turn / 2);
  };
}

Schedule one_f_one_b(const ScheduleProblem& problem, OpKind backward) {
  Schedule schedule = empty_schedule(problem);
  const std::size_t count = 2 * static_cast<std::size_t>(problem.microbatches);
  const OpRule rule = one_f_one_b_rule(problem.stages(), problem.microbatches, backward);
  for (int s = 0; s < problem.stages(); ++s) {
    auto& ops = schedule.ops(problem.rank_of(s));
    ops.reserve(count);
    for (std::size_t k = 0; k < count; ++k) ops.push_back(rule(s, static_cast<std::int64_t>(k)));
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
