#include "systems/layerpipe/list_order.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "harness/base/index.h"
#include "harness/pipeline/orders.h"

namespace sluice {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class ListSchedule {
  struct Candidate {
    double start = 0;
    Op op;
    int rank = 0;
    bool floats = false;
    auto key() const {
      const int order = op.kind == OpKind::input_gradient ? 0 : op.kind == OpKind::weight_gradient ? 1 : 2;
      return std::tuple(start, op.micro.value, order, rank);
    }
  };

 public:
  ListSchedule(const ScheduleProblem& problem, int delay)
      : problem_(problem), delay_(delay), microbatches_(problem.microbatches), schedule_(empty_schedule(problem)) {
    const int stages = problem.stages();
    next_.assign(stages, 0);
    weights_done_.assign(stages, 0);
    inputs_done_.assign(stages, 0);
    free_.assign(problem.ranks, 0);
    homes_of_.resize(problem.ranks);
    floating_on_.resize(problem.ranks);
    for (int s = 0; s < stages; ++s) {
      for (auto* ends : {&forward_end_, &input_end_, &weight_end_})
        ends->emplace_back(static_cast<std::size_t>(microbatches_), kNever);
      const StageId stage(s);
      homes_of_[problem.rank_of(s).index()].push_back(s);
      const bool floats = problem.placement.has_weight_gradient_rank(stage);
      if (floats) floating_on_[problem.placement.weight_gradient_ranks[s].index()].push_back(s);
      std::vector<Op>& fixed = fixed_.emplace_back();
      orders::one_forward_one_backward(
          microbatches_, std::min(stages - 1 - s, microbatches_), [&](int k) { fixed.push_back(forward_op(s, k)); },
          [&](int k) {
            fixed.push_back(input_gradient_op(s, k));
            if (!floats) fixed.push_back(weight_gradient_op(s, k));
          });
    }
  }

  Schedule run() {
    std::size_t left = static_cast<std::size_t>(3 * problem_.stages()) * static_cast<std::size_t>(microbatches_);
    for (; left > 0; --left) {
      std::optional<Candidate> best;
      for (int r = 0; r < problem_.ranks; ++r)
        if (const auto found = earliest(r); found && (!best || found->key() < best->key())) best = found;
      if (!best) throw std::logic_error("a list schedule that waits for itself");
      take(*best);
    }
    return std::move(schedule_);
  }

 private:
  // The task that the rank would begin next.
  std::optional<Candidate> earliest(int r) const {
    std::optional<Candidate> best;
    const auto offer = [&](const Op& op, bool floats) {
      const double ready = floats ? end_of(input_end_, op) : ready_at(op);
      if (ready == kNever) return;
      const Candidate candidate{std::max(ready, free_[r]), op, r, floats};
      if (!best || candidate.key() < best->key()) best = candidate;
    };
    for (const int s : homes_of_[r])
      if (next_[s] < count_of(fixed_[s])) offer(fixed_[s][next_[s]], false);
    for (const int s : floating_on_[r])
      if (weights_done_[s] < microbatches_) offer(weight_gradient_op(s, weights_done_[s]), true);
    return best;
  }

  using Ends = std::vector<std::vector<double>>;
  static double end_of(const Ends& ends, const Op& op) { return ends[op.stage.index()][op.micro.index()]; }

  // When what an op of a stage's own rank waits for is done.
  double ready_at(const Op& op) const {
    const std::size_t s = op.stage.index(), i = op.micro.index();
    if (op.kind == OpKind::weight_gradient) return input_end_[s][i];
    double ready = 0;
    if (op.kind == OpKind::forward && s > 0) ready = forward_end_[s - 1][i];
    if (op.kind == OpKind::input_gradient) {
      ready = forward_end_[s][i];
      if (s + 1 < input_end_.size()) ready = std::max(ready, input_end_[s + 1][i]);
    }
    // The step that is due.
    const int due = inputs_done_[s] - delay_ - 1;
    if (problem_.placement.has_weight_gradient_rank(op.stage) && due >= 0) ready = std::max(ready, weight_end_[s][due]);
    return ready;
  }

  void take(const Candidate& next) {
    const Op& op = next.op;
    const std::size_t s = op.stage.index(), i = op.micro.index();
    const double end = next.start + seconds(op);
    free_[next.rank] = end;
    schedule_.ranks[next.rank].push_back(op);
    if (!next.floats) ++next_[s];
    switch (op.kind) {
      case OpKind::forward:
        forward_end_[s][i] = end;
        break;
      case OpKind::weight_gradient:
        weight_end_[s][i] = end;
        ++weights_done_[s];
        break;
      default:
        input_end_[s][i] = end;
        ++inputs_done_[s];
    }
  }

  double seconds(const Op& op) const {
    if (problem_.costs.empty()) return 1;
    const StageCost& cost = problem_.costs[op.stage.index()];
    const Seconds time = op.kind == OpKind::forward           ? cost.forward
                         : op.kind == OpKind::weight_gradient ? cost.weight_gradient
                                                              : cost.input_gradient;
    return time.value;
  }

  const ScheduleProblem& problem_;
  const int delay_, microbatches_;
  Schedule schedule_;
  std::vector<std::vector<Op>> fixed_;                    // per stage: F, I and its own W, in order
  std::vector<int> next_;                                 // per stage: place in fixed_
  std::vector<int> inputs_done_, weights_done_;           // per stage
  std::vector<std::vector<int>> homes_of_, floating_on_;  // per rank: stages
  std::vector<double> free_;                              // per rank
  Ends forward_end_, input_end_, weight_end_;             // [stage][micro]
};

}  // namespace

Schedule list_order(const ScheduleProblem& problem, int delay) { return ListSchedule(problem, delay).run(); }

}  // namespace sluice
