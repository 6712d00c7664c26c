#include "baselines/pipe_offload/copy_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <tuple>

namespace sluice {

namespace {

constexpr double kSame = 1e-9;  // times closer than this, as a part of a copy, are the same

using Stash = std::pair<StageId, Micro>;

// What is known of one activation that moves.
struct Candidate {
  Stash stash;
  double forward_end = 0, latest_back = 0;  // latest_back: one I before the start of its I
  int out = 0, back = 0;                    // slots, counted in each direction
};

bool is_of_chunks(const ScheduleProblem& problem, const Op& op, int chunks) {
  return op.stage.value / problem.ranks < chunks;
}

// Moves the ops before a rank's first I to as late as delays neither the next stage nor that I, down to the first F of
// the rank's last stage.
void delay_warm_up(const ScheduleProblem& problem, TimedOrder& order) {
  std::map<Stash, double> starts;  // of forwards
  for (const auto& ops : order)
    for (const TimedOp& t : ops)
      if (t.op.kind == OpKind::forward) starts[{t.op.stage, t.op.micro}] = t.start;
  for (std::size_t r = order.size(); r-- > 0;) {
    auto& ops = order[r];
    const auto first = std::ranges::find(ops, OpKind::input_gradient, [](const TimedOp& t) { return t.op.kind; });
    if (first == ops.end()) continue;
    double limit = first->start - seconds_of(problem, first->op);
    for (auto t = first; t != ops.begin();) {
      --t;
      const bool last_stage = t->op.stage.value + problem.ranks >= problem.stages();
      if (last_stage && t->op.micro == Micro(0)) break;
      double before = limit;
      if (const auto next = starts.find({StageId(t->op.stage.value + 1), t->op.micro}); next != starts.end())
        before = std::min(before, next->second - message_seconds(problem, t->op.stage.value));
      const double start = before - (t->end - t->start);
      if (start > t->start) {
        t->end = before;
        t->start = start;
        starts[{t->op.stage, t->op.micro}] = start;
      }
      limit = t->start;
    }
  }
}

class PairOfRanks {
 public:
  PairOfRanks(const ScheduleProblem& problem, const TimedOrder& order, std::size_t first, int chunks, double seconds)
      : seconds_(seconds), first_(first), ranks_(std::min<std::size_t>(2, order.size() - first)) {
    for (std::size_t b = 0; b < ranks_; ++b) {
      const auto& ops = order[first + b];
      begin_[b] = b == 0 && !ops.empty() ? ops.front().end : begin_[0] + seconds;
      choose(problem, ops, b, chunks);
      take_slots(ops, b);
    }
  }

  // False: there is no room.
  bool plan(std::vector<std::vector<PlannedCopy>>& copies) const {
    std::map<std::pair<std::size_t, Stash>, double> alone = copies_before_the_first_back();
    for (std::size_t b = 0; b < ranks_; ++b)
      for (const Candidate& c : candidates_[b]) {
        const auto found = alone.find({b, c.stash});
        const double out = found != alone.end() ? found->second : begin_[b] + 2 * c.out * seconds_;
        const double out_end = out + (found != alone.end() ? kAlone : 1) * seconds_;
        const double back = begin_[b] + (2 * c.back - 1) * seconds_;
        if (back < out_end - kSame * seconds_) return false;
        copies[first_ + b].push_back({c.stash.first, c.stash.second, out, out_end, back, back + seconds_});
      }
    return true;
  }

 private:
  static constexpr double kAlone =
      0.7;  // share of a copy's seconds that it takes without a copy in the other direction

  void choose(const ScheduleProblem& problem, const std::vector<TimedOp>& ops, std::size_t b, int chunks) {
    std::map<Stash, double> latest;
    for (const TimedOp& t : ops)
      if (t.op.kind == OpKind::input_gradient) latest[{t.op.stage, t.op.micro}] = t.start - seconds_of(problem, t.op);
    for (const TimedOp& t : ops) {
      if (t.op.kind != OpKind::forward || !is_of_chunks(problem, t.op, chunks)) continue;
      const Stash stash{t.op.stage, t.op.micro};
      if (latest.at(stash) - t.end <= (6 + kSame) * seconds_) continue;
      candidates_[b].push_back({.stash = stash, .forward_end = t.end, .latest_back = latest.at(stash)});
    }
  }

  void take_slots(const std::vector<TimedOp>& ops, std::size_t b) {
    std::map<Stash, Candidate*> by_stash;
    int next = 0;
    for (Candidate& c : candidates_[b]) {
      const int first = static_cast<int>(std::ceil((c.forward_end - begin_[b]) / (2 * seconds_) - kSame));
      c.out = std::max(next, first);
      next = c.out + 1;
      by_stash[c.stash] = &c;
    }
    int before = std::numeric_limits<int>::max();
    for (auto t = ops.rbegin(); t != ops.rend(); ++t) {
      const auto found = by_stash.find({t->op.stage, t->op.micro});
      if (t->op.kind != OpKind::input_gradient || found == by_stash.end()) continue;
      Candidate& c = *found->second;
      const int last = static_cast<int>(std::floor((c.latest_back - begin_[b]) / (2 * seconds_) + kSame));
      c.back = before = std::min(last, before - 1);
    }
  }

  // Starts of those copies out that come before the first copy back of either rank.
  std::map<std::pair<std::size_t, Stash>, double> copies_before_the_first_back() const {
    int first_back = std::numeric_limits<int>::max();
    for (std::size_t b = 0; b < ranks_; ++b)
      for (const Candidate& c : candidates_[b]) first_back = std::min(first_back, 2 * c.back - 1 + static_cast<int>(b));
    std::vector<std::tuple<int, std::size_t, const Candidate*>> early;
    for (std::size_t b = 0; b < ranks_; ++b)
      for (const Candidate& c : candidates_[b])
        if (const int slot = 2 * c.out + static_cast<int>(b); slot < first_back) early.emplace_back(slot, b, &c);
    std::ranges::sort(early, [](const auto& x, const auto& y) { return std::get<0>(x) < std::get<0>(y); });
    std::map<std::pair<std::size_t, Stash>, double> starts;
    double now = -1;
    for (const auto& [slot, b, candidate] : early) {
      if (now < 0) now = begin_[b] + 2 * candidate->out * seconds_;
      now = std::max(now, candidate->forward_end);
      starts[{b, candidate->stash}] = now;
      now += kAlone * seconds_;
    }
    return starts;
  }

  double seconds_;
  std::size_t first_, ranks_;
  double begin_[2] = {0, 0};
  std::vector<Candidate> candidates_[2];
};

}  // namespace

std::optional<CopyPlan> plan_copies(const ScheduleProblem& problem, const Schedule& schedule, int chunks,
                                    double copy_seconds) {
  CopyPlan plan{.order = timed(problem, schedule), .copies = {}};
  delay_warm_up(problem, plan.order);
  plan.copies.resize(plan.order.size());
  for (std::size_t first = 0; first < plan.order.size(); first += 2)
    if (!PairOfRanks(problem, plan.order, first, chunks, copy_seconds).plan(plan.copies)) return std::nullopt;
  return plan;
}

MovePlaces places_of(const PlannedCopy& copy, const std::vector<TimedOp>& ops, std::size_t forward) {
  const double same = kSame * (copy.back_end - copy.back_start);
  // The first op that is no longer before something: starts and ends rise.
  const auto first = [&](auto is_before) {
    return static_cast<std::size_t>(std::ranges::partition_point(ops, is_before) - ops.begin());
  };
  MovePlaces places{.out = first([&](const TimedOp& t) { return t.end <= copy.out_start + same; }),
                    .free = first([&](const TimedOp& t) { return t.start < copy.out_end - same; }),
                    .back = first([&](const TimedOp& t) { return t.end <= copy.back_start + same; })};
  places.out = std::max(places.out, forward + 1);
  places.free = std::max(places.free, places.out);
  places.back = std::max(places.back, places.free);
  return places;
}

Offload moves_of(const CopyPlan& plan) {
  Offload offload;
  for (std::size_t r = 0; r < plan.order.size(); ++r) {
    const std::vector<TimedOp>& ops = plan.order[r];
    std::map<Stash, std::size_t> forwards;
    for (std::size_t k = 0; k < ops.size(); ++k)
      if (ops[k].op.kind == OpKind::forward) forwards[{ops[k].op.stage, ops[k].op.micro}] = k;
    // By op; there first the frees of copies that began before, so that memory is given back before more is taken, then
    // in the order that is planned.
    std::vector<std::tuple<std::size_t, bool, double, StashMove>> moves;
    for (const PlannedCopy& c : plan.copies[r]) {
      const MovePlaces places = places_of(c, ops, forwards.at({c.stage, c.micro}));
      const auto add = [&](StashMove::Kind kind, std::size_t before, double when) {
        const bool is_early_free = kind == StashMove::Kind::free && places.out < before;
        moves.emplace_back(before, !is_early_free, when, StashMove{kind, before, c.stage, c.micro});
      };
      add(StashMove::Kind::out, places.out, c.out_start);
      add(StashMove::Kind::free, places.free, c.out_end);
      add(StashMove::Kind::back, places.back, c.back_start);
    }
    std::ranges::stable_sort(moves, std::less<>(), [](const auto& move) {
      return std::tie(std::get<0>(move), std::get<1>(move), std::get<2>(move));
    });
    auto& list = offload.ranks.emplace_back();
    for (const auto& move : moves) list.push_back(std::get<3>(move));
  }
  return offload;
}

}  // namespace sluice
