// Zero bubble (Qi et al., ICLR 2024, arXiv 2401.10241): the backward is split into the input gradient I, on which the
// rank before waits, and the weight gradient W, which nobody waits for and which fills what would be bubble.
//
// variant=h1, h2 (section 2, figures 2 and 3): h(p - 1 - r) forwards, then F, I and, from I number h r on, one W in
// turn, the oldest first; h r W are left for the end. p = 3, m = 4, h1 and h2:
//
//   rank 0  F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3
//   rank 1     F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
//   rank 2        F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
//
//   rank 0  F0 F1 F2 F3       I0 W0 I1 W1 I2 W2 I3 W3
//   rank 1     F0 F1 F2 I0 F3 I1    I2 W0 I3 W1 W2 W3
//   rank 2        F0 I0 F1 I1 F2 I2 F3 I3 W0 W1 W2 W3
//
// Bubble (p - 1)(F + I - h W) over a rank's own span. Activations waiting for I: p - r with h1, as 1F1B, and
// 2(p - r) - 1 with h2. The authors' code wants m >= 2p. The order stays valid with any m, but the bubble is this one
// from m = p (h1) and m = 2p - 1 (h2) on.
//
// variant=v (ZB-V; order as in PyTorch's ScheduleZBVZeroBubble): stages r and 2p - 1 - r on rank r. No bubble on a
// rank's own span at equal times from m = 2p - 1 on, with the p activations (2p of the half as long stages) of 1F1B's
// first rank on every rank.
//
// variant=auto (section 3.1): a search over orders for given times and a cap on memory, stage by stage
// (automatic_schedule.h). ZB-1p is memory = p, the default, ZB-2p memory = 2p. Between I and W a micro-batch holds what
// W reads and no more (M_W of M_B); where h1 or h2 fits into the memory and is faster, it is taken.
#include <algorithm>

#include "baselines/zero_bubble/automatic_schedule.h"
#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/chain_partition.h"

namespace sluice {

namespace {

enum class Variant { h1, h2, v, automatic };

const ChoiceOption<Variant> variant_option(
    "variant",
    "h1 (the memory of 1F1B), h2 (about twice that), v (two stages a rank) or auto (searched for the stages' times)",
    {{"h1", Variant::h1}, {"h2", Variant::h2}, {"v", Variant::v}, {"auto", Variant::automatic}});

// variant=auto: micro-batches that a rank may hold.
int memory_of(int ranks, const Options& options) {
  const int given = options.integer("memory"), memory = given == 0 ? ranks : given;
  if (memory < ranks)
    throw InputError("zero_bubble",
                     "memory=" + std::to_string(memory) + " micro-batches on " + std::to_string(ranks) + " ranks",
                     "the first rank holds one for every rank: give at least as many");
  return memory;
}

Plan zero_bubble_plan(const Problem& problem, const Options& options) {
  return variant_option(options) == Variant::v ? chunked_chain(problem, 2, ChunkPlacement::wave, "zero_bubble")
                                               : balanced_chain(problem, problem.devices, "zero_bubble");
}

// variant=h1 with h = 1, h2 with h = 2.
OpRule h1_or_h2_rule(const ScheduleProblem& problem, int h) {
  const auto op = [p = problem.ranks, m = problem.microbatches, h](int s, std::int64_t k) {
    const orders::Turn turn = orders::one_forward_one_backward_split(k, m, std::min(h * (p - 1 - s), m), h * s);
    return Op{turn.kind, StageId(s), Micro(static_cast<int>(turn.number))};
  };
  return {op, 3LL * problem.microbatches};
}

Schedule h1_or_h2(const ScheduleProblem& problem, int h) { return orders::by_rule(problem, h1_or_h2_rule(problem, h)); }

OpRule zero_bubble_rule(const ScheduleProblem& problem, const Options& options) {
  const Variant variant = variant_option(options);
  if (variant != Variant::h1 && variant != Variant::h2) return {};
  return h1_or_h2_rule(problem, variant == Variant::h1 ? 1 : 2);
}

// Rank r, with its stages 0 (going down) and 1 (coming back):
//   2(p - r) - 1 x F0;  r x F1 F0;  (p - r) x F1 I1 W1;  F0 I0 W0 F1 I1 W1 while there are forwards;  r x I0 I1;
//   (p - r) x I0 W0;  the W1, then the W0, that are left.
// Built for at least 2p - 1 micro-batches; those that do not exist are left out.
Schedule v_shaped(const ScheduleProblem& problem) {
  const int p = problem.ranks, m = problem.microbatches, n = std::max(m, 2 * p - 1);
  Schedule schedule = empty_schedule(problem);
  for (int r = 0; r < p; ++r) {
    auto& ops = schedule.ranks[r];
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

Schedule zero_bubble_schedule(const ScheduleProblem& problem, const Options& options) {
  switch (variant_option(options)) {
    case Variant::h1:
      return h1_or_h2(problem, 1);
    case Variant::h2:
      return h1_or_h2(problem, 2);
    case Variant::v:
      return v_shaped(problem);
    case Variant::automatic: {
      const Schedule fixed[] = {h1_or_h2(problem, 1), h1_or_h2(problem, 2)};
      return automatic_zero_bubble_schedule(problem, memory_of(problem.ranks, options), fixed);
    }
  }
  return {};
}

// At F = I = W: a bubble of p - 1 with h1; with h2 and v none on a rank's own span, but the ranks are p - 1 apart.
Theory zero_bubble_theory(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, m = problem.microbatches;
  const Variant variant = variant_option(options);
  Theory theory = flush_theory(p);
  if (variant == Variant::automatic) return theory;
  if (variant == Variant::v) {
    if (m < 2 * p - 1) return theory;
    theory.bubble_ratio = fill_drain_bubble(p, 6 * m);
    theory.in_flight.assign(p, 2 * p);
    return theory;
  }
  const int h = variant == Variant::h1 ? 1 : 2;
  if (m >= (h == 1 ? p : 2 * (p - 1))) theory.bubble_ratio = fill_drain_bubble(p, 3 * m);
  theory.in_flight = list_of(p, [&](int r) { return std::min(m, h * (p - 1 - r) + 1); });
  return theory;
}

}  // namespace

extern const System zero_bubble = {
    .name = "zero_bubble",
    .aliases = {"zb"},
    .title = "Zero bubble",
    .citation = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024 (arXiv 2401.10241)",
    .written_from = {WrittenFrom::code,
                     {{"bubble and memory formulas", WrittenFrom::paper},
                      {"variant=auto", WrittenFrom::paper},
                      {"h1 and h2 in variant=auto", WrittenFrom::ours}},
                     "variant=auto also takes the order of h1 or h2, where that is faster and fits."},
    .searches_order = true,
    .options = {variant_option.spec(),
                only_with({"memory", "0", "max whole micro-batches per rank; 0: as many as ranks (ZB-1p)", {}, 0},
                          "variant", {"auto"})},
    .chunks = [](const Options& options) { return variant_option(options) == Variant::v ? 2 : 1; },
    .plan = zero_bubble_plan,
    .schedule = zero_bubble_schedule,
    .op_rule = zero_bubble_rule,
    .theory = zero_bubble_theory,
};

}  // namespace sluice
