// Hanayo (Liu et al., SC 2023, arXiv 2308.15762): 2 W stages a rank in W waves, each running down the ranks and back
// up, so that every rank has short stages near both ends of the pipeline and no second copy of the weights. Only the
// abstract and texts of others could be read, which show drawings and no rule. The rule here gives the shape of the
// drawing: time in equal slots, every rank runs what is ready, backwards before forwards, the deepest of its stages
// first, then the lowest micro-batch; at most `cap` micro-batches are in flight. The order is kept, whatever the times.
// One wave, p = 2, m = 2, drawn at B = 2 F; small letters are the second stage of a rank:
//
//   rank 0  F0F1..f0b0--f1b1--..B0--....B1--
//   rank 1  ..F0f0F1f1..b0--B0--b1--B1--....
//
// m > p waits at the cap: raise it, for memory.
#include <algorithm>
#include <queue>

#include "harness/base/index.h"
#include "harness/pipeline/system.h"

namespace sluice {

namespace {

int cap_of(const ScheduleProblem& problem, const Options& options) {
  const int given = options.integer("cap");
  return given == 0 ? problem.ranks : given;
}

// What is ready on one rank: the largest runs first.
struct Ready {
  bool backward;
  int stage, micro;
  Op op() const { return backward ? backward_op(stage, micro) : forward_op(stage, micro); }
  friend bool operator<(const Ready& a, const Ready& b) {
    if (a.backward != b.backward) return b.backward;
    if (a.stage != b.stage) return a.stage < b.stage;
    return a.micro > b.micro;
  }
};

Schedule hanayo_schedule(const ScheduleProblem& problem, const Options& options) {
  const int m = problem.microbatches;
  Schedule schedule = empty_schedule(problem);
  std::vector<std::priority_queue<Ready>> ready(problem.ranks);
  const auto make_ready = [&](const Ready& next) { ready[problem.rank_of(next.stage).index()].push(next); };
  int entered = 0;
  const auto enter = [&] {
    if (entered < m) make_ready({false, 0, entered++});
  };
  for (int i = 0; i < std::min(cap_of(problem, options), m); ++i) enter();
  std::vector<Ready> slot;  // what runs in this slot
  do {
    slot.clear();
    for (int r = 0; r < problem.ranks; ++r) {
      if (ready[r].empty()) continue;
      slot.push_back(ready[r].top());
      ready[r].pop();
      schedule.ranks[r].push_back(slot.back().op());
    }
    for (const Ready& done : slot) {
      if (done.backward && done.stage == 0)
        enter();
      else if (done.backward)
        make_ready({true, done.stage - 1, done.micro});
      else if (done.stage == problem.stages() - 1)
        make_ready({true, done.stage, done.micro});
      else
        make_ready({false, done.stage + 1, done.micro});
    }
  } while (!slot.empty());
  return schedule;
}

Theory hanayo_theory(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, v = problem.chunks(), m = problem.microbatches;
  Theory theory = flush_theory(p);
  if (m == p && cap_of(problem, options) >= p) {
    theory.bubble_ratio = 4.0 * (p - 1) / (3 * m * v + 4 * (p - 1));
    theory.in_flight = list_of(p, [&](int r) { return (v - 1) * p + r + 1; });
  }
  return theory;
}

}  // namespace

extern const System hanayo = {
    .name = "hanayo",
    .title = "Hanayo",
    .citation =
        "Liu et al., Hanayo: Harnessing Wave-like Pipeline Parallelism for Enhanced Large Model Training Efficiency, "
        "SC 2023 (arXiv 2308.15762)",
    .written_from = {WrittenFrom::abstract,
                     {{"order", WrittenFrom::ours}},
                     "The rule that orders the ops is ours: what could be read shows drawings, no rule."},
    .options = {{"waves", "1", "number of waves; every rank holds two stages of each"},
                {"cap", "0", "max micro-batches in flight; 0: as many as ranks", {}, 0}},
    .chunks = [](const Options& options) { return 2 * options.integer("waves"); },
    .chunk_placement = ChunkPlacement::wave,
    .schedule = hanayo_schedule,
    .theory = hanayo_theory,
};

}  // namespace sluice
