#include "baselines/pipe_offload/lifetime_plan.h"

#include <algorithm>
#include <functional>
#include <map>

namespace sluice {

namespace {

struct Life {
  StageId stage;
  Micro micro;
  double forward_end = 0, backward_start = 0;
  double ratio = 0;
};

// When a rank's link copies: intervals that do not overlap.
class LinkTimes {
 public:
  double first_free(double from, double seconds) const {
    double at = from;
    for (const auto& [start, end] : busy_) {
      if (at + seconds <= start) break;
      at = std::max(at, end);
    }
    return at;
  }
  double last_free(double until, double seconds) const {
    double at = until - seconds;
    for (auto busy = busy_.rbegin(); busy != busy_.rend(); ++busy) {
      if (at >= busy->second) break;
      at = std::min(at, busy->first - seconds);
    }
    return at;
  }
  void take(double start, double end) { busy_[start] = end; }
  void give_back(double start) { busy_.erase(start); }

 private:
  std::map<double, double> busy_;
};

// Activations on the device at most, counted at forwards and copies back.
int most_held(const std::vector<TimedOp>& ops, const std::vector<PlannedCopy>& copies) {
  CopyPlan plan{.order = {ops}, .copies = {copies}};
  const std::vector<StashMove> moves = moves_of(plan).ranks.front();
  int now = 0, most = 0;
  auto move = moves.begin();
  for (std::size_t k = 0; k < ops.size(); ++k) {
    for (; move != moves.end() && move->before == k; ++move) {
      now += move->kind == StashMove::Kind::back;
      now -= move->kind == StashMove::Kind::free;
      most = std::max(most, now);
    }
    now += ops[k].op.kind == OpKind::forward;
    most = std::max(most, now);
    now -= ops[k].op.kind == OpKind::weight_gradient || ops[k].op.kind == OpKind::backward;
  }
  return most;
}

std::vector<Life> lives_of(const std::vector<TimedOp>& ops, const std::vector<double>& seconds) {
  std::map<std::pair<StageId, Micro>, double> ends;
  std::vector<Life> lives;
  for (const TimedOp& t : ops) {
    if (t.op.kind == OpKind::forward) ends[{t.op.stage, t.op.micro}] = t.end;
    if (t.op.kind != OpKind::input_gradient && t.op.kind != OpKind::backward) continue;
    Life life{t.op.stage, t.op.micro, ends.at({t.op.stage, t.op.micro}), t.start};
    const double copy = seconds[life.stage.index()];
    life.ratio = (life.backward_start - life.forward_end) / std::max(copy, 1e-12);
    lives.push_back(life);
  }
  std::ranges::stable_sort(lives, std::greater<>(), &Life::ratio);
  return lives;
}

}  // namespace

CopyPlan plan_by_lifetime(const ScheduleProblem& problem, const Schedule& schedule, const std::vector<double>& seconds,
                          int most) {
  CopyPlan plan{.order = timed(problem, schedule), .copies = {}};
  for (const std::vector<TimedOp>& ops : plan.order) {
    std::vector<PlannedCopy>& copies = plan.copies.emplace_back();
    LinkTimes link;
    for (const Life& life : lives_of(ops, seconds)) {
      if (most > 0 && most_held(ops, copies) <= most) break;
      const double copy = seconds[life.stage.index()];
      const double out = link.first_free(life.forward_end, copy);
      link.take(out, out + copy);
      const double back = link.last_free(life.backward_start, copy);
      if (back < out + copy) {
        link.give_back(out);
        continue;
      }
      link.take(back, back + copy);
      copies.push_back({life.stage, life.micro, out, out + copy, back, back + copy});
    }
  }
  return plan;
}

}  // namespace sluice
