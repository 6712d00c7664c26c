// Zero bubble (Qi et al., ICLR 2024, arXiv 2401.10241): the backward is split into the input
// gradient I, on which the rank before waits, and the weight gradient W, which nobody waits for and
// which fills what would be bubble.
//
// variant=h1, h2 (section 2, figures 2 and 3): h(p - 1 - r) forwards, then F, I and, from I number
// h r on, one W in turn, the oldest first; h r W are left for the end. p = 3, m = 4, h1 and h2:
//
//   rank 0  F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3
//   rank 1     F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
//   rank 2        F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
//
//   rank 0  F0 F1 F2 F3       I0 W0 I1 W1 I2 W2 I3 W3
//   rank 1     F0 F1 F2 I0 F3 I1    I2 W0 I3 W1 W2 W3
//   rank 2        F0 I0 F1 I1 F2 I2 F3 I3 W0 W1 W2 W3
//
// Bubble (p - 1)(F + I - h W) over a rank's own span. Activations waiting for I: p - r with h1, as
// 1F1B, and 2(p - r) - 1 with h2. The authors' code wants m >= 2p. The order stays valid with any
// m, but the bubble is this one from m = p (h1) and m = 2p - 1 (h2) on.
//
// variant=v (ZB-V; order as in PyTorch's ScheduleZBVZeroBubble): stages r and 2p - 1 - r on rank r.
// No bubble on a rank's own span at equal times from m = 2p - 1 on, with the p activations (2p of
// the half as long stages) of 1F1B's first rank on every rank.
//
// variant=auto (section 3.1): a search over orders for given times and a cap on memory, stage by
// stage; see Search below. ZB-1p is memory = p, the default, ZB-2p memory = 2p.
#include <algorithm>
#include <limits>

#include "harness/base/error.h"
#include "harness/plan/chain_partition.h"

namespace sluice {

namespace {

Schedule h1_or_h2(const ScheduleProblem& problem, int h) {
  Schedule schedule = empty_schedule(problem.ranks, problem.microbatches);
  const int p = problem.ranks, m = problem.microbatches;
  for (int s = 0; s < p; ++s) {
    auto& ops = schedule.ranks[problem.placement.stages[static_cast<std::size_t>(s)].front().index()];
    ops.reserve(3 * static_cast<std::size_t>(m));
    int forwards = 0, weight_gradients = 0;
    while (forwards < std::min(h * (p - 1 - s), m)) ops.push_back(forward_op(s, forwards++));
    for (int i = 0; i < m; ++i) {
      if (forwards < m) ops.push_back(forward_op(s, forwards++));
      ops.push_back(input_gradient_op(s, i));
      if (i >= h * s) ops.push_back(weight_gradient_op(s, weight_gradients++));
    }
    while (weight_gradients < m) ops.push_back(weight_gradient_op(s, weight_gradients++));
  }
  return schedule;
}

// Rank r, with its stages 0 (going down) and 1 (coming back):
//   2(p - r) - 1 x F0;  r x F1 F0;  (p - r) x F1 I1 W1;  F0 I0 W0 F1 I1 W1 while there are
//   forwards; r x I0 I1;  (p - r) x I0 W0;  the W1, then the W0, that are left.
// Built for at least 2p - 1 micro-batches; those that do not exist are left out.
Schedule v_shaped(const ScheduleProblem& problem) {
  const int p = problem.ranks, m = problem.microbatches, n = std::max(m, 2 * p - 1);
  Schedule schedule = empty_schedule(p, m);
  for (int r = 0; r < p; ++r) {
    auto& ops = schedule.ranks[static_cast<std::size_t>(r)];
    const int stage[2] = {r, 2 * p - 1 - r};
    int forwards[2] = {0, 0}, input_gradients[2] = {0, 0}, weight_gradients[2] = {0, 0};
    const auto add = [&](Op op) {
      if (op.micro.value < m) ops.push_back(op);
    };
    const auto f = [&](int c) { add(forward_op(stage[c], forwards[c]++)); };
    const auto i = [&](int c) { add(input_gradient_op(stage[c], input_gradients[c]++)); };
    const auto w = [&](int c) { add(weight_gradient_op(stage[c], weight_gradients[c]++)); };
    for (int k = 0; k < 2 * (p - r) - 1; ++k) f(0);
    for (int k = 0; k < r; ++k) f(1), f(0);
    for (int k = 0; k < p - r; ++k) f(1), i(1), w(1);
    while (forwards[1] < n) {
      if (forwards[0] < n) f(0);
      i(0), w(0), f(1), i(1), w(1);
    }
    for (int k = 0; k < r; ++k) i(0), i(1);
    for (int k = 0; k < p - r; ++k) i(0), w(0);
    while (weight_gradients[1] < n) w(1);
    while (weight_gradients[0] < n) w(0);
  }
  return schedule;
}

// The heuristic of section 3.1. Times are known, so it plays the schedule while making it:
//   Before the first I, every stage runs forwards as memory and the arrival of that I allow, at
//   least one more than the stage after it.
//   Then F and I in turn. A gap that a W fits into gets one; a smaller gap gets one if it would
//   make the largest bubble of any stage larger, or always with `greedy`; a full memory gets one.
//   When F and I are used up, the W that are left.
// Three yes-or-no choices, all eight tried: the best has the shortest span of its slowest stage.
// Memory counts micro-batches between F and the end of W, whatever share of them W keeps.
class Search {
 public:
  struct Choices {
    bool late_forward;    // one more F before the first I, although it delays that I
    bool gradient_first;  // leave an F out where it would delay I and the next stage is well fed
    bool greedy;
  };

  Search(const ScheduleProblem& problem, int memory)
      : p_(problem.ranks),
        m_(problem.microbatches),
        memory_(memory),
        latency_(problem.latency.value),
        stages_(static_cast<std::size_t>(p_)) {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      Stage& stage = stages_[s];
      if (!problem.costs.empty()) {
        const StageCost& cost = problem.costs[s];
        stage.seconds[0] = cost.forward.value;
        stage.seconds[1] = cost.input_gradient.value;
        stage.seconds[2] = cost.weight_gradient.value;
      }
    }
  }

  // Returns the span of the slowest stage.
  double run(const Choices& choices) {
    choices_ = choices;
    max_bubble_ = 0;
    for (Stage& stage : stages_) {
      stage.order.clear();
      stage.order.reserve(3 * static_cast<std::size_t>(m_));
      for (auto& ends : stage.ends) ends.clear();
      stage.clock = stage.bubble = 0;
    }
    warm_up();
    for (int i = 1; i < m_; ++i)
      for (int s = p_ - 1; s >= 0; --s) {
        if (wants_forward(s)) {
          while (held(s) >= memory_ && waiting(s) > 0) put(s, 2);
          if (held(s) < memory_) {
            fill_gap(s, arrival(s, 0));
            put(s, 0);
          }
        }
        fill_gap(s, arrival(s, 1));
        put(s, 1);
      }
    double slowest = 0;
    for (int s = 0; s < p_; ++s) {
      while (waiting(s) > 0) put(s, 2);
      const Stage& stage = at(s);
      slowest = std::max(slowest, stage.clock - (stage.ends[0].front() - stage.seconds[0]));
    }
    return slowest;
  }

  Schedule schedule(const Placement& placement) const {
    Schedule result = empty_schedule(p_, m_);
    for (int s = 0; s < p_; ++s)
      result.ranks[placement.stages[static_cast<std::size_t>(s)].front().index()] = at(s).order;
    return result;
  }

 private:
  struct Stage {
    double seconds[3] = {1, 1, 1};  // F, I, W
    double clock = 0, bubble = 0;
    std::vector<double> ends[3];  // when F, I, W number i ended
    std::vector<Op> order;
  };

  Stage& at(int s) { return stages_[static_cast<std::size_t>(s)]; }
  const Stage& at(int s) const { return stages_[static_cast<std::size_t>(s)]; }
  int count(int s, int kind) const { return static_cast<int>(at(s).ends[kind].size()); }
  int held(int s) const { return count(s, 0) - count(s, 2); }
  int waiting(int s) const { return count(s, 1) - count(s, 2); }

  // When the stage's next F or I has its input from the neighbour, which has already run.
  double arrival(int s, int kind) const {
    const int neighbour = kind == 0 ? s - 1 : s + 1;
    if (neighbour < 0 || neighbour == p_) return 0;
    return at(neighbour).ends[kind][static_cast<std::size_t>(count(s, kind))] + latency_;
  }

  void put(int s, int kind) {
    constexpr OpKind kKinds[] = {OpKind::forward, OpKind::input_gradient, OpKind::weight_gradient};
    Stage& stage = at(s);
    const double start = std::max(stage.clock, kind == 2 ? 0.0 : arrival(s, kind));
    if (!stage.order.empty()) stage.bubble += start - stage.clock;
    max_bubble_ = std::max(max_bubble_, stage.bubble);
    stage.clock = start + stage.seconds[kind];
    stage.order.push_back({kKinds[kind], StageId(s), Micro(count(s, kind))});
    stage.ends[kind].push_back(stage.clock);
  }

  void warm_up() {
    for (int s = 0; s < p_; ++s) put(s, 0);
    for (int s = p_ - 1; s >= 0; --s) {
      const double first = arrival(s, 1);
      // Every stage before needs one more, within the same cap.
      const int most = std::min(m_, memory_ - s);
      const int least = s + 1 < p_ ? std::min(m_, count(s + 1, 0) + 1) : 1;
      while (count(s, 0) < most) {
        const Stage& stage = at(s);
        const bool in_time = stage.clock + stage.seconds[0] <= first + 1e-12;
        const bool late = choices_.late_forward && stage.clock < first;
        if (!in_time && !late && count(s, 0) >= least) break;
        add_forward(s);
      }
      put(s, 1);
    }
  }

  // The stage's next F, after those of the stages before it that are missing.
  void add_forward(int s) {
    int first = s;
    while (first > 0 && count(first - 1, 0) <= count(s, 0)) --first;
    const int micro = count(s, 0);
    for (int k = first; k <= s; ++k)
      while (count(k, 0) <= micro) put(k, 0);
  }

  bool wants_forward(int s) const {
    const int horizon = s + 1 < p_ ? count(s, 0) - count(s + 1, 0) : 0;
    if (count(s, 0) == m_) return false;
    if (s > 0 && count(s - 1, 0) == count(s, 0)) return false;  // its input is not planned yet
    const bool needed = count(s, 0) == count(s, 1) || horizon < 1;
    if (needed || horizon < 2 || !choices_.gradient_first) return true;
    const double end = std::max(at(s).clock, arrival(s, 0)) + at(s).seconds[0];
    return end <= arrival(s, 1);
  }

  void fill_gap(int s, double until) {
    const double seconds = at(s).seconds[2];
    while (waiting(s) > 0 && at(s).clock + seconds <= until) put(s, 2);
    const double gap = until - at(s).clock;
    if (waiting(s) > 0 && gap > 0 && (choices_.greedy || at(s).bubble + gap > max_bubble_)) put(s, 2);
  }

  int p_, m_, memory_;
  double latency_;
  std::vector<Stage> stages_;
  Choices choices_{};
  double max_bubble_ = 0;
};

Schedule searched(const ScheduleProblem& problem, const Options& options) {
  const int given = options.integer("memory"), memory = given == 0 ? problem.ranks : given;
  if (memory < problem.ranks)
    throw InputError(
        "zero_bubble",
        "memory=" + std::to_string(memory) + " micro-batches on " + std::to_string(problem.ranks) + " ranks",
        "the first rank holds one for every rank: give at least as many");
  Search search(problem, memory);
  Search::Choices best{};
  double shortest = std::numeric_limits<double>::infinity();
  for (int k = 0; k < 8; ++k) {
    const Search::Choices choices{(k & 1) != 0, (k & 2) != 0, (k & 4) != 0};
    const double span = search.run(choices);
    if (span >= shortest) continue;
    shortest = span;
    best = choices;
  }
  search.run(best);
  return search.schedule(problem.placement);
}

Schedule zero_bubble_schedule(const ScheduleProblem& problem, const Options& options) {
  const std::string& variant = options.text("variant");
  if (variant == "v") return v_shaped(problem);
  if (variant == "auto") return searched(problem, options);
  return h1_or_h2(problem, variant == "h1" ? 1 : 2);
}

Theory zero_bubble_theory(const ScheduleProblem& problem, const Options& options) {
  const auto ranks = static_cast<std::size_t>(problem.ranks);
  const int p = problem.ranks, m = problem.microbatches;
  const std::string& variant = options.text("variant");
  Theory theory{.weight_versions = std::vector<int>(ranks, 1), .staleness = std::vector<int>(ranks, 0)};
  // At F = I = W: h1 has a bubble of p - 1; h2 and v none on any rank's own span, but the ranks
  // start and end p - 1 apart.
  if (variant == "v") {
    if (m >= 2 * p - 1) {
      theory.bubble_ratio = static_cast<double>(p - 1) / (6 * m + p - 1);
      theory.in_flight.assign(ranks, 2 * p);
    }
  } else if (variant != "auto") {
    const int h = variant == "h1" ? 1 : 2;
    if (m >= (h == 1 ? p : 2 * (p - 1))) theory.bubble_ratio = static_cast<double>(p - 1) / (3 * m + p - 1);
    for (int r = 0; r < p; ++r) theory.in_flight.push_back(std::min(m, h * (p - 1 - r) + 1));
  }
  return theory;
}

}  // namespace

extern const System zero_bubble;
const System zero_bubble = {
    .name = "zero_bubble",
    .aliases = {"zb"},
    .title = "Zero bubble",
    .citation = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024 (arXiv 2401.10241)",
    .synchronous = true,
    .options = {{"variant",
                 "h1",
                 "h1 (the memory of 1F1B), h2 (twice that), v (two stages a rank) or auto (searched "
                 "for the stages' times)",
                 {"h1", "h2", "v", "auto"}},
                {"memory", "0", "variant=auto: micro-batches a rank may hold; 0: as many as ranks (ZB-1p)", {}, 0}},
    .plan =
        [](const Problem& p, const Options& options) {
          return options.text("variant") == "v" ? chunked_chain(p, 2, ChunkPlacement::wave, "zero_bubble")
                                                : balanced_chain(p, p.devices, "zero_bubble");
        },
    .schedule = zero_bubble_schedule,
    .weights = [](const ScheduleProblem&, const Options&) { return WeightRule{}; },
    .theory = zero_bubble_theory,
    .chunks = [](const Options& options) { return options.text("variant") == "v" ? 2 : 1; },
};

}  // namespace sluice
