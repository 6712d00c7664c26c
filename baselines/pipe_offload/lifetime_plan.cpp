#include "baselines/pipe_offload/lifetime_plan.h"

#include <algorithm>
#include <functional>
#include <map>

namespace sluice {

namespace {

struct Life {
  StageId stage;
  Micro micro;
  std::size_t forward = 0, backward = 0;  // ops of the rank
  double ratio = 0;                       // of the seconds between the two to those of a copy
};

// When a rank's link copies: intervals that do not overlap.
class LinkTimes {
 public:
  double first_free(double from, double seconds) const {
    double at = from;
    auto busy = busy_.upper_bound(from);
    if (busy != busy_.begin()) --busy;
    for (; busy != busy_.end() && at + seconds > busy->first; ++busy) at = std::max(at, busy->second);
    return at;
  }
  double last_free(double until, double seconds) const {
    double at = until - seconds;
    for (auto busy = busy_.lower_bound(until); busy != busy_.begin();) {
      --busy;
      if (at >= busy->second) break;
      at = std::min(at, busy->first - seconds);
    }
    return at;
  }
  void take(double start, double end) { busy_[start] = end; }

 private:
  std::map<double, double> busy_;
};

// The activations of one rank, and how many of them it holds during each op.
class HeldActivations {
 public:
  HeldActivations(const std::vector<TimedOp>& ops, const std::vector<double>& seconds) : ops_(ops) {
    std::map<std::pair<StageId, Micro>, std::size_t> forwards;
    int now = 0;
    for (std::size_t k = 0; k < ops.size(); ++k) {
      const Op& op = ops[k].op;
      now += op.kind == OpKind::forward;
      held_.push_back(now);
      now -= op.kind == OpKind::weight_gradient || op.kind == OpKind::backward;
      if (op.kind == OpKind::forward) forwards[{op.stage, op.micro}] = k;
      if (op.kind != OpKind::input_gradient && op.kind != OpKind::backward) continue;
      const std::size_t forward = forwards.at({op.stage, op.micro});
      const double life = ops[k].start - ops[forward].end;
      lives_.push_back({op.stage, op.micro, forward, k, life / std::max(seconds[op.stage.index()], 1e-12)});
    }
    std::ranges::stable_sort(lives_, std::greater<>(), &Life::ratio);
  }

  int most() const { return held_.empty() ? 0 : std::ranges::max(held_); }

  // Moves what lowers the peak where it is highest, as long as that is more than `most` and there is such a one.
  std::vector<PlannedCopy> moved(int most, const std::vector<double>& seconds) {
    std::vector<PlannedCopy> copies;
    LinkTimes link;
    while (this->most() > most) {
      const auto peak = static_cast<std::size_t>(std::ranges::max_element(held_) - held_.begin());
      const auto found = std::ranges::find_if(lives_, [&](const Life& life) {
        return life.forward < peak && peak < life.backward && moves(life, peak, seconds, link, copies);
      });
      if (found == lives_.end()) break;
      lives_.erase(found);
    }
    return copies;
  }

 private:
  // Whether its copies have room, and it is away at the peak; then it moves.
  bool moves(const Life& life, std::size_t peak, const std::vector<double>& seconds, LinkTimes& link,
             std::vector<PlannedCopy>& copies) {
    const double copy = seconds[life.stage.index()];
    const double out = link.first_free(ops_[life.forward].end, copy);
    const double back = link.last_free(ops_[life.backward].start, copy);
    if (back < out + copy) return false;
    const PlannedCopy planned{life.stage, life.micro, out, out + copy, back, back + copy};
    const MovePlaces places = places_of(planned, ops_, life.forward);
    if (peak < places.free || peak >= places.back) return false;
    link.take(out, out + copy);
    link.take(back, back + copy);
    for (std::size_t k = places.free; k < places.back; ++k) --held_[k];
    copies.push_back(planned);
    return true;
  }

  const std::vector<TimedOp>& ops_;
  std::vector<int> held_;    // per op
  std::vector<Life> lives_;  // of those that have not moved, the largest ratio first
};

}  // namespace

CopyPlan plan_by_lifetime(const ScheduleProblem& problem, const Schedule& schedule, const std::vector<double>& seconds,
                          int most) {
  CopyPlan plan{.order = timed(problem, schedule), .copies = {}};
  for (const std::vector<TimedOp>& ops : plan.order)
    plan.copies.push_back(HeldActivations(ops, seconds).moved(most, seconds));
  return plan;
}

}  // namespace sluice
