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
// variant=combined: the combined 1F1B of Megatron-Core (--overlap-moe-expert-parallel-comm; order and formula from
// Victarry/PP-Schedule-Visualization, Megatron's own code was not read). A forward and a backward run as an overlapped
// pair, so that the all-to-alls of each hide behind the products of the other. That takes one micro-batch more between
// two ranks: rank r runs w = min(2(p - 1 - r) + 1, m) forwards, then m - w pairs, then w backwards. p = 3, m = 6:
//
//   rank 0  F0F1F2F3F4........F5B0+-B1--..B2--B3--..B4--B5--
//   rank 1  ..F0F1F2....F3B0+-F4B1+-F5B2+-B3--..B4--B5--....
//   rank 2  ....F0F1B0+-F2B1+-F3B2+-F4B3+-F5B4+-B5--........
//
// Makespan p (F + B) + (m - 1) P, P being a pair: that of 1F1B where a pair takes F + B, for min(m, 2(p - r))
// activations on rank r. Not with recomputation, as in Megatron-Core.
//
// recompute=all, needed: inputs are held instead, and one stage's activations at a time; `needed` spares the last
//   stage, where every backward follows its forward at once.
#include <algorithm>

#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/recompute_option.h"

namespace sluice {

enum class Variant { plain, combined };
enum class Zero { none, optimizer, weights };

static const ChoiceOption<Variant> variant_option(
    "variant", "plain, or combined (a forward and a backward as an overlapped pair: Megatron-Core's combined 1F1B)",
    {{"plain", Variant::plain}, {"combined", Variant::combined}});

static OptionSpec variant_spec() {
  OptionSpec spec = training_only(variant_option.spec());
  spec.in_digest_unless_default = true;
  return spec;
}

static bool is_combined(const Options& options) { return variant_option(options) == Variant::combined; }

// Forwards of a rank before its first backward.
static int warm_up(int ranks, int microbatches, int rank, const Options& options) {
  const int behind = ranks - 1 - rank;
  return std::min(is_combined(options) ? 2 * behind + 1 : behind, microbatches);
}

static Schedule one_f_one_b_schedule(const ScheduleProblem& problem, const Options& options) {
  if (!is_combined(options)) return orders::one_f_one_b(problem);
  Schedule schedule = empty_schedule(problem);
  for (int r = 0; r < problem.ranks; ++r) {
    auto& ops = schedule.ranks[r];
    const int before = warm_up(problem.ranks, problem.microbatches, r, options);
    orders::one_forward_one_backward(
        problem.microbatches, before,
        [&](int k) {
          ops.push_back(forward_op(r, k));
          ops.back().overlapped = k >= before;
        },
        [&](int k) { ops.push_back(backward_op(r, k)); });
  }
  return schedule;
}

static OpRule one_f_one_b_rule(const ScheduleProblem& problem, const Options& options) {
  return is_combined(options) ? OpRule() : orders::one_f_one_b_rule(problem.stages(), problem.microbatches);
}

static const ChoiceOption<Zero> zero_option(
    "zero", "what the ranks of a stage divide: 0 nothing, 1 optimizer state, 3 weights too",
    {{"0", Zero::none}, {"1", Zero::optimizer}, {"3", Zero::weights}});

static Theory one_f_one_b_theory(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, m = problem.microbatches;
  Theory theory = flush_theory(p);
  theory.bubble_ratio = fill_drain_bubble(p, m, recomputation(options));
  theory.in_flight = list_of(p, [&](int r) { return std::min(m, warm_up(p, m, r, options) + 1); });
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
                     {{"zero=1", WrittenFrom::abstract},
                      {"zero=3", WrittenFrom::abstract},
                      {"communication of zero=1", WrittenFrom::ours},
                      {"communication of zero=3", WrittenFrom::ours}},
                     "When zero=1 and zero=3 gather and reduce is our reading of what ZeroPP's abstract calls "
                     "memory-efficient 1F1B."},
    .options = {only_without(recompute_option(), "variant", {"combined"}),
                training_only(replicas_only(zero_option.spec())), variant_spec()},
    .schedule = one_f_one_b_schedule,
    .op_rule = one_f_one_b_rule,
    .weights = flush_with_recompute,
    .theory = one_f_one_b_theory,
    .sharding = one_f_one_b_sharding,
    .pairs = is_combined,
};

}  // namespace sluice
