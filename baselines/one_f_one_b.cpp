// 1F1B, PipeDream-Flush (Narayanan et al., PipeDream-2BW, ICML 2021, arXiv 2006.09503), section 3.1; DAPPLE's early
// backward: rank r runs w = min(p - 1 - r, m) forwards, then one forward and one backward in turn, then w backwards.
// p = 3, m = 4:
//
//   rank 0  F0 F1 F2       B0 F3 B1    B2    B3
//   rank 1     F0 F1    B0 F2 B1 F3 B2    B3
//   rank 2        F0 B0 F1 B1 F2 B2 F3 B3
//
// Makespan (m + p - 1)(F + B) as GPipe, but rank r holds min(m, p - r) activations instead of m.
//
// Where a stage has several ranks, ZeRO (arXiv 1910.02054) may divide it among them: zero=1 its optimizer state (a
// reduce-scatter at the end, a gather of the new weights), zero=3 its weights too (gathered before every F and B and
// dropped after it, gradients scattered after every B). 1F1B with one of these is what ZeroPP's paper calls
// memory-efficient 1F1B, as far as its abstract and its authors' code let one tell.
// recompute=all, needed: inputs are held instead, and one stage's activations at a time; `needed` spares the last
//   stage, where every backward follows its forward at once.
#include <algorithm>

#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/recompute_option.h"

namespace sluice {

enum class Zero { none, optimizer, weights };

static const ChoiceOption<Zero> zero_option(
    "zero", "what the ranks of a stage divide: 0 nothing, 1 optimizer state, 3 weights too",
    {{"0", Zero::none}, {"1", Zero::optimizer}, {"3", Zero::weights}});

static Theory one_f_one_b_theory(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, m = problem.microbatches;
  Theory theory = flush_theory(p);
  theory.bubble_ratio = fill_drain_bubble(p, m, recomputation(options));
  theory.in_flight = list_of(p, [&](int r) { return std::min(m, p - r); });
  return theory;
}

static Sharding one_f_one_b_sharding(const ScheduleProblem&, const Options& options) {
  using Gather = Sharding::Gather;
  using Reduce = Sharding::Reduce;
  switch (zero_option(options)) {
    case Zero::none:
      return {};
    case Zero::optimizer:
      return {.gather = Gather::after_step, .reduce = Reduce::accumulated};
    case Zero::weights:
      return {.gather = Gather::on_use, .reduce = Reduce::per_microbatch};
  }
  return {};
}

extern const System one_f_one_b = {
    .name = "one_f_one_b",
    .aliases = {"1f1b", "pipedream_flush"},
    .title = "1F1B (PipeDream-Flush)",
    .citation = "Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021 (arXiv 2006.09503)",
    .written_from = {WrittenFrom::code,
                     {{"zero=1", WrittenFrom::abstract}, {"zero=3", WrittenFrom::abstract}},
                     "zero=1 and zero=3 are our reading of what ZeroPP's abstract calls memory-efficient 1F1B."},
    .options = {recompute_option(), training_only(replicas_only(zero_option.spec()))},
    .schedule = [](const ScheduleProblem& problem, const Options&) { return orders::one_f_one_b(problem); },
    .weights = flush_with_recompute,
    .theory = one_f_one_b_theory,
    .sharding = one_f_one_b_sharding,
};

}  // namespace sluice
