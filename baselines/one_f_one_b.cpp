// 1F1B, PipeDream-Flush (Narayanan et al., PipeDream-2BW, ICML 2021, section 3.1; DAPPLE's early
// backward): rank r runs w = min(p - 1 - r, m) forwards, then one forward and one backward in turn,
// then w backwards. p = 3, m = 4:
//
//   rank 0  F0 F1 F2       B0 F3 B1    B2    B3
//   rank 1     F0 F1    B0 F2 B1 F3 B2    B3
//   rank 2        F0 B0 F1 B1 F2 B2 F3 B3
//
// Makespan (m + p - 1)(F + B) as GPipe, but rank r holds min(m, p - r) activations instead of m.
//
// Where a stage has several ranks, ZeRO (arXiv 1910.02054) may divide it among them: zero=1 its
// optimizer state (a reduce-scatter at the end, a gather of the new weights), zero=3 its weights
// too (gathered before every F and B and dropped after it, gradients scattered after every B). 1F1B
// with one of these is what ZeroPP's paper calls memory-efficient 1F1B, as far as its abstract and
// its authors' code let one tell.
// recompute=all, needed: inputs are held instead, and one stage's activations at a time; `needed`
// spares the last stage, where every backward follows its forward at once.
#include <algorithm>

#include "harness/plan/chain_partition.h"
#include "harness/plan/recompute_option.h"

namespace sluice {

static Schedule one_f_one_b_schedule(const ScheduleProblem& problem, const Options&) {
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(problem.ranks)),
                    .microbatches = problem.microbatches};
  const int p = static_cast<int>(problem.graph.size()), m = problem.microbatches;
  for (int s = 0; s < p; ++s) {
    auto& ops = schedule.ranks[problem.placement.stages[static_cast<std::size_t>(s)].front().index()];
    ops.reserve(2 * static_cast<std::size_t>(m));
    const int warm_up = std::min(p - 1 - s, m);
    for (int i = 0; i < warm_up; ++i) ops.push_back(forward_op(s, i));
    for (int i = 0; i < m - warm_up; ++i) {
      ops.push_back(forward_op(s, warm_up + i));
      ops.push_back(backward_op(s, i));
    }
    for (int i = m - warm_up; i < m; ++i) ops.push_back(backward_op(s, i));
  }
  return schedule;
}

static Theory one_f_one_b_theory(const ScheduleProblem& problem, const Options& options) {
  Theory theory;
  const int p = problem.ranks, m = problem.microbatches;
  if (!recomputes(options)) theory.bubble_ratio = static_cast<double>(p - 1) / (m + p - 1);
  if (options.text("recompute") == "all") theory.bubble_ratio = recomputed_bubble_ratio(p, m);
  for (int r = 0; r < p; ++r) {
    theory.in_flight.push_back(std::min(m, p - r));
    theory.weight_versions.push_back(1);
    theory.staleness.push_back(0);
  }
  return theory;
}

static Sharding one_f_one_b_sharding(const ScheduleProblem&, const Options& options) {
  using Gather = Sharding::Gather;
  using Reduce = Sharding::Reduce;
  const int zero = options.integer("zero");
  if (zero == 1) return {.gather = Gather::after_step, .reduce = Reduce::per_unit};
  if (zero == 3) return {.gather = Gather::on_use, .reduce = Reduce::per_microbatch};
  return {};
}

extern const System one_f_one_b;
const System one_f_one_b = {
    .name = "one_f_one_b",
    .aliases = {"1f1b", "pipedream_flush"},
    .title = "1F1B (PipeDream-Flush)",
    .citation =
        "Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021 (arXiv "
        "2006.09503)",
    .synchronous = true,
    .options = {recompute_option(),
                {"zero",
                 "0",
                 "what the ranks of a stage divide: 0 nothing, 1 optimizer state, 3 weights too",
                 {"0", "1", "3"}}},
    .plan = [](const Problem& p, const Options&) { return balanced_chain(p, p.devices, "one_f_one_b"); },
    .schedule = one_f_one_b_schedule,
    .weights = [](const ScheduleProblem&, const Options& options) { return flush_with_recompute(options); },
    .theory = one_f_one_b_theory,
    .sharding = one_f_one_b_sharding,
};

}  // namespace sluice
