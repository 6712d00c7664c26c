// ZeroPP (Tang et al., arXiv 2402.03791): pipeline parallelism over fully sharded parameters without tensor
// parallelism. v stages a rank (stage c p + r on rank r). The micro-batches are cut into scheduling units of U (the
// paper's term; "unit" below); inside a unit every rank runs all of it through its first stage, then its second, ...,
// so that a stage's weights are gathered once per visit; in the last stage forwards and input gradients alternate, and
// weight gradients W are put off to where the rank would idle. The full text of the paper was not available: the order
// is that of its first author's public implementation. p = 2, m = U = 3, v = 2; small letters are the second stage of a
// rank:
//
//   rank 0  F0F1F2f0f1f2i0w0i1w1i2w2I0W0I1W1I2W2..
//   rank 1  ..F0F1F2f0i0f1i1f2i2w2I0W0I1W1I2W2w1w0
//
// Units follow one another without a barrier. A rank holds (v - 1) U + min(U, 2p - 1) activations whatever m is; U = p
// costs the bubble of ZB-H1 per unit, U = 2p - 1 that of ZB-H2 (none, at equal times), divided by v; beyond that only
// the number of units falls. A unit takes 2v - 1 gathers, less the one that the unit before leaves behind.
//
// deferral=tight: from input gradient 2r on, one W follows each. Rank r then has 2r of them left, just what fills its
//   wait for the next stage.
// deferral=released: from 2r + 1 on, the test of the released code, which puts off one W too many: U = 2p - 1 then has
//   a bubble of one W.
// deferral=none: every W at once.
// reduce=unit: gradients are scattered once per unit and stage (as far as the abstract tells); reduce=microbatch:
//   after every W (the released code).
#include <algorithm>
#include <vector>

#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/chunks_option.h"

namespace sluice {

namespace {

enum class Deferral { tight, released, none };

const ChoiceOption<Deferral> deferral_option("deferral",
                                             "weight gradients that are put off: tight (as many as fill the wait), "
                                             "released (the authors' code: one more) or none",
                                             {{"tight", Deferral::tight},
                                              {"released", Deferral::released},
                                              {"none", Deferral::none}});

const ChoiceOption<Sharding::Reduce> reduce_option(
    "reduce", "gradients are scattered once per unit (by the abstract) or per microbatch (by the released code)",
    {{"unit", Sharding::Reduce::accumulated}, {"microbatch", Sharding::Reduce::per_microbatch}});

// Micro-batches of a scheduling unit.
int unit_of(const ScheduleProblem& problem, const Options& options) {
  const int given = options.integer("unit");
  return std::min(given == 0 ? problem.ranks : given, problem.microbatches);
}

// Forwards of a rank before its first input gradient, in a scheduling unit of n micro-batches.
int warm_up(int p, int v, int n, int rank) { return std::min(2 * (p - 1 - rank) + (v - 1) * n, n * v); }

// Number of a scheduling unit's first input gradient that a W follows.
int first_followed(Deferral deferral, int rank) {
  switch (deferral) {
    case Deferral::tight:
      return 2 * rank;
    case Deferral::released:
      return 2 * rank + 1;
    case Deferral::none:
      return 0;
  }
  return 0;
}

// Adds the ops of a rank for the scheduling unit of n micro-batches that begins with micro-batch `first`.
void add_unit(std::vector<Op>& ops, int p, int v, int rank, int first, int n, int followed) {
  std::vector<Op> waiting;  // W that are put off; the last in is the first out
  const auto run_weight_gradient = [&] {
    ops.push_back(waiting.back());
    waiting.pop_back();
  };
  const int warm = warm_up(p, v, n, rank), last_steady = n * v - warm;
  orders::one_forward_one_backward(
      n * v, warm, [&](int k) { ops.push_back(forward_op(k / n * p + rank, first + k % n)); },
      [&](int k) {
        const int stage = (v - 1 - k / n) * p + rank, micro = first + k % n;
        ops.push_back(input_gradient_op(stage, micro));
        waiting.push_back(weight_gradient_op(stage, micro));
        if (k >= followed || k >= n || k >= last_steady) run_weight_gradient();
      });
  while (!waiting.empty()) run_weight_gradient();
}

Schedule zeropp_schedule(const ScheduleProblem& problem, const Options& options) {
  Schedule schedule = empty_schedule(problem);
  const int p = problem.ranks, m = problem.microbatches, unit = unit_of(problem, options);
  for (int r = 0; r < p; ++r)
    for (int first = 0; first < m; first += unit)
      add_unit(schedule.ranks[r], p, problem.chunks(), r, first, std::min(unit, m - first),
               first_followed(deferral_option(options), r));
  return schedule;
}

// Bubble of a scheduling unit of n >= p micro-batches between others, at F = I = W, in ops of a stage.
int unit_bubble(int p, int n, Deferral deferral) {
  if (deferral == Deferral::none) return 2 * (p - 1);
  const int bubble = p - 1 - (std::min(n, 2 * p - 1) - p);
  return deferral == Deferral::released && n == 2 * p - 1 && p > 1 ? 1 : bubble;
}

Theory zeropp_theory(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, v = problem.chunks(), m = problem.microbatches;
  const int unit = unit_of(problem, options);
  const Deferral deferral = deferral_option(options);
  Theory theory = flush_theory(p);
  theory.in_flight = list_of(p, [&](int r) { return std::min(warm_up(p, v, unit, r) + 1, unit * v); });
  const int last = m - (m - 1) / unit * unit;  // micro-batches of the last unit
  if (unit < p || last < p) {
    theory.note = "a unit of fewer micro-batches than ranks: its bubble is larger";
    return theory;
  }
  const int units = (m + unit - 1) / unit;
  // The ranks of the last unit start and end p - 1 apart at least.
  const int idle = (units - 1) * unit_bubble(p, unit, deferral) +
                   (deferral == Deferral::none ? unit_bubble(p, last, deferral) : p - 1);
  theory.bubble_ratio = static_cast<double>(idle) / (3 * m * v + idle);
  return theory;
}

Sharding zeropp_sharding(const ScheduleProblem& problem, const Options& options) {
  return {.gather = Sharding::Gather::on_visit,
          .reduce = reduce_option(options),
          .microbatches_per_reduction = unit_of(problem, options)};
}

}  // namespace

extern const System zeropp = {
    .name = "zeropp",
    .title = "ZeroPP",
    .citation =
        "Tang et al., ZeroPP: Unleashing Exceptional Parallelism Efficiency through Tensor-Parallelism-Free "
        "Methodology, 2024 (arXiv 2402.03791)",
    .written_from = {WrittenFrom::code,
                     {{"reduce=unit", WrittenFrom::abstract}, {"deferral=tight", WrittenFrom::ours}},
                     "deferral=tight, which puts off one W less than the released code, is ours."},
    .options = {chunks_option(),
                {"unit", "0", "micro-batches of a scheduling unit; 0: as many as ranks", {}, 0},
                training_only(deferral_option.spec()),
                replicas_only(reduce_option.spec())},
    .chunks = given_chunks,
    .schedule = zeropp_schedule,
    .theory = zeropp_theory,
    .sharding = zeropp_sharding,
};

}  // namespace sluice
