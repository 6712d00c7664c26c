#include "baselines/pipe_offload/op_times.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/pipeline/op_seconds.h"

namespace sluice {

double seconds_of(const ScheduleProblem& problem, const Op& op) {
  return problem.costs.empty() ? 1 : seconds_of(problem.costs[op.stage.index()], op.kind).value;
}

TimedOrder timed(const ScheduleProblem& problem, const Schedule& schedule) {
  const auto microbatches = static_cast<std::size_t>(problem.microbatches);
  std::vector<double> forwards(problem.graph.size() * microbatches, -1),
      backwards = forwards;  // ends; below 0: not yet
  const auto at = [&](int stage, Micro micro) {
    return static_cast<std::size_t>(stage) * microbatches + micro.index();
  };
  // When what an op reads is there; below 0: not yet.
  const auto ready = [&](const Op& op) -> double {
    const int s = op.stage.value;
    if (op.kind == OpKind::weight_gradient) return 0;
    const bool forward = op.kind == OpKind::forward;
    const int from = forward ? s - 1 : s + 1;
    if (from < 0 || from == problem.stages()) return 0;
    const double end = (forward ? forwards : backwards)[at(from, op.micro)];
    const bool local = problem.rank_of(from) == problem.rank_of(s);
    return end < 0 || local ? end : end + message_seconds(problem, std::min(from, s));
  };
  TimedOrder order(schedule.ranks.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < order.size(); ++r)
      while (order[r].size() < schedule.ranks[r].size()) {
        const Op& op = schedule.ranks[r][order[r].size()];
        const double inputs = ready(op);
        if (inputs < 0) break;
        const double start = std::max(inputs, order[r].empty() ? 0 : order[r].back().end);
        const double end = start + seconds_of(problem, op);
        order[r].push_back({op, start, end});
        if (op.kind == OpKind::forward) forwards[at(op.stage.value, op.micro)] = end;
        if (op.kind == OpKind::input_gradient) backwards[at(op.stage.value, op.micro)] = end;
        moved = true;
      }
  }
  return order;
}

}  // namespace sluice
