#include "harness/pipeline/orders.h"

#include <algorithm>

namespace sluice::orders {

OpRule fill_drain_rule(int microbatches, BackwardOrder backward) {
  const auto op = [m = microbatches, lifo = backward == BackwardOrder::lifo](int stage, std::int64_t k) {
    const int i = static_cast<int>(k % m);
    return k < m ? forward_op(stage, i) : backward_op(stage, lifo ? m - 1 - i : i);
  };
  return {op, 2LL * microbatches};
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

static void add_ops(std::vector<Op>& ops, const OpRule& rule, int rank) {
  ops.reserve(ops.size() + static_cast<std::size_t>(rule.ops));
  for (std::int64_t k = 0; k < rule.ops; ++k) ops.push_back(rule(rank, k));
}

OpRule one_f_one_b_rule(int stages, int microbatches, OpKind backward) {
  const auto op = [p = stages, m = microbatches, backward](int stage, std::int64_t k) {
    const Turn turn = one_forward_one_backward(k, m, std::min(p - 1 - stage, m));
    return Op{turn.kind == OpKind::forward ? OpKind::forward : backward, StageId(stage),
              Micro(static_cast<int>(turn.number))};
  };
  return {op, 2LL * microbatches};
}

Schedule one_f_one_b(const ScheduleProblem& problem, OpKind backward) {
  Schedule schedule = empty_schedule(problem);
  const OpRule rule = one_f_one_b_rule(problem.stages(), problem.microbatches, backward);
  for (int s = 0; s < problem.stages(); ++s) add_ops(schedule.ops(problem.rank_of(s)), rule, s);
  return schedule;
}

Turn one_forward_one_backward(std::int64_t k, std::int64_t count, std::int64_t warm_up) {
  const std::int64_t in_turn = k - warm_up;
  if (in_turn < 0) return {OpKind::forward, k};
  if (in_turn >= 2 * (count - warm_up)) return {OpKind::backward, k - count};
  return in_turn % 2 == 0 ? Turn{OpKind::forward, warm_up + in_turn / 2} : Turn{OpKind::backward, in_turn / 2};
}

Turn one_forward_one_backward_split(std::int64_t k, std::int64_t count, std::int64_t warm_up, std::int64_t delay) {
  if (k < warm_up) return {OpKind::forward, k};
  // Round i is I number i, after it W number i - delay and before it F number warm_up + i, where there are such.
  const std::int64_t with_forward = count - warm_up, without_w = std::min(delay, count);
  const std::int64_t first = std::min(with_forward, without_w), second = std::max(with_forward, without_w);
  const std::int64_t in_second = with_forward < without_w ? 1 : 3;  // ops of a round between the two
  std::int64_t place = k - warm_up, round = 0;
  const auto in_rounds = [&](std::int64_t rounds, std::int64_t ops) {  // of that many ops each
    const bool inside = place < rounds * ops;
    round += inside ? place / ops : rounds;
    place = inside ? place % ops : place - rounds * ops;
    return inside;
  };
  if (!in_rounds(first, 2) && !in_rounds(second - first, in_second) && !in_rounds(count - second, 2))
    return {OpKind::weight_gradient, count - without_w + place};
  if (round >= with_forward) ++place;
  constexpr OpKind kinds[] = {OpKind::forward, OpKind::input_gradient, OpKind::weight_gradient};
  const std::int64_t numbers[] = {warm_up + round, round, round - delay};
  return {kinds[place], numbers[place]};
}

Schedule by_rule(const ScheduleProblem& problem, const OpRule& rule) {
  Schedule schedule = empty_schedule(problem);
  for (int r = 0; r < problem.ranks; ++r) add_ops(schedule.ranks[static_cast<std::size_t>(r)], rule, r);
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
