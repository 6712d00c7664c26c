#include "baselines/zero_bubble/automatic_schedule.h"

#include <algorithm>
#include <limits>

#include "harness/base/index.h"

namespace sluice {

namespace {

// The heuristic of section 3.1. Times are known, so it plays the schedule while making it:
//   Before the first I, every stage runs forwards as memory and the arrival of that I allow, at least one more than the
//   stage after it.
//   Then F and I in turn. A gap that a W fits into gets one; a smaller gap gets one if it would make the largest bubble
//   of any stage larger, or always with `greedy`; a full memory gets one.
//   When F and I are used up, the W that are left.
// Three yes-or-no choices, all eight tried: the best has the shortest span of its slowest stage.
class Search {
 public:
  struct Choices {
    bool late_forward;    // one more F before the first I, although it delays that I
    bool gradient_first;  // leave an F out where it would delay I and the next stage is well fed
    bool greedy;
  };

  Search(const ScheduleProblem& problem, double memory)
      : p_(problem.ranks), m_(problem.microbatches), memory_(memory), stages_(problem.ranks) {
    for (int s = 0; s < p_; ++s) {
      stages_[s].message = message_seconds(problem, s);
      if (!problem.weight_stash_share.empty()) stages_[s].weight_share = problem.weight_stash_share[s];
      if (problem.costs.empty()) continue;
      const StageCost& cost = problem.costs[s];
      stages_[s].seconds[F] = cost.forward.value;
      stages_[s].seconds[I] = cost.input_gradient.value;
      stages_[s].seconds[W] = cost.weight_gradient.value;
    }
  }

  // Returns the span of the slowest stage.
  double run(const Choices& choices) {
    choices_ = choices;
    clear();
    warm_up();
    for (int i = 1; i < m_; ++i)
      for (int s = p_ - 1; s >= 0; --s) {
        if (wants_forward(s)) {
          while (!has_room(s) && waiting(s) > 0) put(s, W);
          if (has_room(s)) {
            fill_gap(s, arrival(s, F));
            put(s, F);
          }
        }
        fill_gap(s, arrival(s, I));
        put(s, I);
      }
    for (int s = 0; s < p_; ++s)
      while (waiting(s) > 0) put(s, W);
    return slowest_span();
  }

  // The span of the slowest stage under the given orders, or infinite where one of them holds more than the memory.
  double span_of(const std::vector<std::vector<Op>>& orders) {
    clear();
    std::vector<std::size_t> next(orders.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (int s = 0; s < p_; ++s)
        for (; next[s] < orders[s].size(); ++next[s], moved = true) {
          const Kind kind = kind_of(orders[s][next[s]].kind);
          if (!has_arrived(s, kind)) break;
          if (kind == F && !has_room(s)) return std::numeric_limits<double>::infinity();
          put(s, kind);
        }
    }
    return slowest_span();
  }

  const std::vector<Op>& order_of(int stage) const { return stages_[stage].order; }

 private:
  enum Kind { F, I, W };
  struct Stage {
    double seconds[3] = {1, 1, 1};
    double message = 0;       // seconds of a message between it and the stage after it
    double weight_share = 1;  // of what a micro-batch holds: what W keeps of it after I
    double clock = 0, bubble = 0;
    std::vector<double> ends[3];  // when F, I, W number i ended
    std::vector<Op> order;
  };

  int count(int s, Kind kind) const { return count_of(stages_[s].ends[kind]); }
  // Whether one more micro-batch fits.
  bool has_room(int s) const {
    const int whole = count(s, F) - count(s, I);
    return whole + waiting(s) * stages_[s].weight_share + 1 <= memory_ + 1e-9;
  }
  int waiting(int s) const { return count(s, I) - count(s, W); }

  static Kind kind_of(OpKind kind) { return kind == OpKind::forward ? F : kind == OpKind::input_gradient ? I : W; }

  void clear() {
    max_bubble_ = 0;
    for (Stage& stage : stages_) {
      stage.order.clear();
      stage.order.reserve(3 * static_cast<std::size_t>(m_));
      for (auto& ends : stage.ends) ends.clear();
      stage.clock = stage.bubble = 0;
    }
  }

  double slowest_span() const {
    double slowest = 0;
    for (const Stage& stage : stages_)
      slowest = std::max(slowest, stage.clock - (stage.ends[F].front() - stage.seconds[F]));
    return slowest;
  }

  // Whether the neighbour has run what the stage's next F or I reads.
  bool has_arrived(int s, Kind kind) const {
    if (kind == W) return true;
    const int neighbour = kind == F ? s - 1 : s + 1;
    return neighbour < 0 || neighbour == p_ || count(neighbour, kind) > count(s, kind);
  }

  // When the stage's next F or I has its input from the neighbour, which has already run.
  double arrival(int s, Kind kind) const {
    const int neighbour = kind == F ? s - 1 : s + 1;
    if (neighbour < 0 || neighbour == p_) return 0;
    return stages_[neighbour].ends[kind][count(s, kind)] + stages_[kind == F ? neighbour : s].message;
  }

  void put(int s, Kind kind) {
    constexpr OpKind kKinds[] = {OpKind::forward, OpKind::input_gradient, OpKind::weight_gradient};
    Stage& stage = stages_[s];
    const double start = std::max(stage.clock, kind == W ? 0.0 : arrival(s, kind));
    if (!stage.order.empty()) stage.bubble += start - stage.clock;
    max_bubble_ = std::max(max_bubble_, stage.bubble);
    stage.clock = start + stage.seconds[kind];
    stage.order.push_back({kKinds[kind], StageId(s), Micro(count(s, kind))});
    stage.ends[kind].push_back(stage.clock);
  }

  void warm_up() {
    for (int s = 0; s < p_; ++s) put(s, F);
    for (int s = p_ - 1; s >= 0; --s) {
      const double first = arrival(s, I);
      // Every stage before needs one more, within the same cap.
      const int most = std::min(m_, static_cast<int>(memory_) - s);
      const int least = s + 1 < p_ ? std::min(m_, count(s + 1, F) + 1) : 1;
      while (count(s, F) < most) {
        const Stage& stage = stages_[s];
        const bool in_time = stage.clock + stage.seconds[F] <= first + 1e-12;
        const bool late = choices_.late_forward && stage.clock < first;
        if (!in_time && !late && count(s, F) >= least) break;
        add_forward(s);
      }
      put(s, I);
    }
  }

  // The stage's next F, after those of the stages before it that are missing.
  void add_forward(int s) {
    int first = s;
    while (first > 0 && count(first - 1, F) <= count(s, F)) --first;
    const int micro = count(s, F);
    for (int k = first; k <= s; ++k)
      while (count(k, F) <= micro) put(k, F);
  }

  bool wants_forward(int s) const {
    const int queued = s + 1 < p_ ? count(s, F) - count(s + 1, F) : 0;  // inputs that the next stage has waiting
    if (count(s, F) == m_) return false;
    if (s > 0 && count(s - 1, F) == count(s, F)) return false;  // its input is not planned yet
    const bool needed = count(s, F) == count(s, I) || queued < 1;
    if (needed || queued < 2 || !choices_.gradient_first) return true;
    const double end = std::max(stages_[s].clock, arrival(s, F)) + stages_[s].seconds[F];
    return end <= arrival(s, I);
  }

  void fill_gap(int s, double until) {
    const double seconds = stages_[s].seconds[W];
    while (waiting(s) > 0 && stages_[s].clock + seconds <= until) put(s, W);
    const double gap = until - stages_[s].clock;
    if (waiting(s) > 0 && gap > 0 && (choices_.greedy || stages_[s].bubble + gap > max_bubble_)) put(s, W);
  }

  int p_, m_;
  double memory_;  // in micro-batches
  std::vector<Stage> stages_;
  Choices choices_{};
  double max_bubble_ = 0;
};

}  // namespace

Schedule automatic_zero_bubble_schedule(const ScheduleProblem& problem, double memory,
                                        std::span<const Schedule> alternatives) {
  Search search(problem, memory);
  Search::Choices best{};
  double shortest = std::numeric_limits<double>::infinity();
  for (const bool greedy : {false, true})
    for (const bool gradient_first : {false, true})
      for (const bool late_forward : {false, true}) {
        const Search::Choices choices{late_forward, gradient_first, greedy};
        const double span = search.run(choices);
        if (span >= shortest) continue;
        shortest = span;
        best = choices;
      }
  const Schedule* better = nullptr;
  for (const Schedule& alternative : alternatives) {
    std::vector<std::vector<Op>> orders;
    for (int s = 0; s < problem.ranks; ++s) orders.push_back(alternative.ops(problem.rank_of(s)));
    const double span = search.span_of(orders);
    if (span >= shortest) continue;
    shortest = span;
    better = &alternative;
  }
  if (better) return *better;
  search.run(best);
  Schedule schedule = empty_schedule(problem);
  for (int s = 0; s < problem.ranks; ++s) schedule.ops(problem.rank_of(s)) = search.order_of(s);
  return schedule;
}

}  // namespace sluice
