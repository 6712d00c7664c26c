// Interleaved 1F1B (Narayanan et al., SC 2021, arXiv 2104.04473), section 2.2: v stages a rank, stage c p + r on rank
// r, so that the pipeline fills and drains in steps of 1/v of a rank's work. Micro-batches go round in groups of g = p:
// step k runs stage (k mod g v) / g of the rank, backwards the same from the last stage. Rank r runs
// 2(p - 1 - r) + (v - 1) g forwards, then one forward and one backward in turn. p = 2, m = 4, v = 2, B = 2 F; small
// letters are the second stage of a rank:
//
//   rank 0  F0F1f0f1F2..b0--F3b1--f2B0--f3B1--..b2--..b3--B2--B3--
//   rank 1  ..F0F1f0b0--f1b1--F2B0--F3B1--f2b2--f3b3--B2--B3--....
//
// Makespan (m v + p - 1)(F + B) of a stage, so the bubble of 1F1B divided by v, for v times the messages.
//
// rule=megatron: m must be a multiple of p, and with m = p all forwards run first, as in Megatron-LM's runtime.
// rule=torch: PyTorch's ScheduleInterleaved1F1B: groups of g = m / max(1, m / p) micro-batches, so that m need only be
//   a multiple of the number of groups.
// group=g: Megatron-LM's microbatch_group_size_per_vp_stage: any m; the last group has what is left. With g or the last
//   group smaller than p, ranks may wait for one another in a cycle (Megatron-LM#1829); lowering names it.
//
// variant=zero_bubble: PyTorch's ScheduleInterleavedZeroBubble, which divides the backward as zero bubble does (Qi et
// al., arXiv 2401.10241; with v = 1 it is ZB-H1). A rank has one forward for each rank behind it instead of two: rank
// r runs (v - 1) g + p - 1 - r forwards, then F, I and, from I number r on, one W in turn, the oldest first. p = 2,
// m = 4, v = 2:
//
//   rank 0  F0F1f0f1..i0w0F2i1w1F3I0W0f2I1W1f3i2w2i3w3I2W2I3W3
//   rank 1  ..F0F1f0i0f1i1w0F2I0w1F3I1W0f2i2W1f3i3w2I2w3I3W2W3
//
// Every rank idles (p - 1)(F + I - W) of a stage: at F = I = W a third of interleaved 1F1B's bubble, for the same
// messages and fewer activations: (v - 1) g + p - r in place of (v - 1) g + 2(p - 1 - r) + 1. Where messages take no
// time it is never behind interleaved 1F1B; where they do, it can be, because fewer forwards are there to hide them.
//
// variant=combined: the combined 1F1B of Megatron-Core (--overlap-moe-expert-parallel-comm; order and formula from
// Victarry/PP-Schedule-Visualization, Megatron's own code was not read). One forward more warms up, 2(p - 1 - r) +
// (v - 1) g + 1 in all, then a forward and a backward run as an overlapped pair, which may be of two stages of the
// rank, so that the all-to-alls of each hide behind the products of the other. p = 2, m = 4, v = 2:
//
//   rank 0  F0F1f0f1F2....F3b0+-f2b1+-f3B0+-B1--..b2--b3--B2--B3--
//   rank 1  ..F0F1f0f1b0+-F2b1+-F3B0+-f2B1+-f3b2+-b3--B2--B3--....
//
// Makespan (p - 1 + n)(F + B) + (m v - n) P of a stage for n = p (v - 1) + 1 and a pair P: that of interleaved 1F1B
// where a pair takes F + B, for one activation more. Not with recomputation, as in Megatron-Core.
#include <algorithm>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/chunks_option.h"
#include "harness/plan/recompute_option.h"

namespace sluice {

namespace {

enum class Rule { megatron, torch };
enum class Variant { whole, zero_bubble, combined };

const ChoiceOption<Rule> rule_option(
    "rule", "megatron (micro-batches a multiple of ranks) or torch (PyTorch: of floor(micro-batches / ranks))",
    {{"megatron", Rule::megatron}, {"torch", Rule::torch}});

const ChoiceOption<Variant> variant_option(
    "variant",
    "whole (whole backwards), zero_bubble (weight gradients apart: PyTorch's ScheduleInterleavedZeroBubble) or "
    "combined (a forward and a backward as an overlapped pair: Megatron-Core's combined 1F1B)",
    {{"whole", Variant::whole}, {"zero_bubble", Variant::zero_bubble}, {"combined", Variant::combined}});

bool is_combined(const Options& options) { return variant_option(options) == Variant::combined; }

OptionSpec new_option(OptionSpec spec) {
  spec.in_digest_unless_default = true;
  return spec;
}
const OptionSpec group_option =
    new_option({"group",
                "0",
                "consecutive micro-batches of a stage (Megatron-LM's microbatch_group_size_per_vp_stage), for any "
                "number of micro-batches; fewer than ranks can deadlock, which is rejected; 0: by `rule`",
                {},
                0});

int groups_of(int ranks, int microbatches) { return std::max(1, microbatches / ranks); }

void require_even_groups(int p, int m, const Options& options) {
  if (options.integer("group") > 0) return;
  const int groups = groups_of(p, m);
  if (rule_option(options) == Rule::megatron && m % p != 0)
    throw InputError("interleaved_1f1b",
                     std::to_string(m) + " micro-batches are not a multiple of " + std::to_string(p) + " ranks",
                     "change one of them, or set rule=torch");
  if (m % groups != 0)
    throw InputError("interleaved_1f1b",
                     std::to_string(m) + " micro-batches do not make " + std::to_string(groups) + " equal groups for " +
                         std::to_string(p) + " ranks",
                     "use a multiple of " + std::to_string(p));
}

int group_of(const ScheduleProblem& problem, const Options& options) {
  const int m = problem.microbatches, given = options.integer("group");
  return given > 0 ? std::min(given, m) : m / groups_of(problem.ranks, m);
}

int warm_up(const ScheduleProblem& problem, const Options& options, int rank) {
  const int p = problem.ranks, m = problem.microbatches, v = problem.chunks();
  const int before = (v - 1) * group_of(problem, options);
  if (variant_option(options) == Variant::zero_bubble) return std::min(before + p - 1 - rank, m * v);
  if (is_combined(options)) return std::min(before + 2 * (p - 1 - rank) + 1, m * v);
  if (rule_option(options) == Rule::megatron && m == p) return m * v;
  return std::min(before + 2 * (p - 1 - rank), m * v);
}

OpRule rule_of_ops(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, m = problem.microbatches, v = problem.chunks(), group = group_of(problem, options);
  require_even_groups(p, m, options);
  const bool split = variant_option(options) == Variant::zero_bubble;
  std::vector<int> before;
  for (int r = 0; r < p; ++r) before.push_back(warm_up(problem, options, r));
  const auto op = [=](int r, std::int64_t k) {
    const int forwards = before[static_cast<std::size_t>(r)];
    const orders::Turn turn = split ? orders::one_forward_one_backward_split(k, m * v, forwards, r)
                                    : orders::one_forward_one_backward(k, m * v, forwards);
    // The rank's op of that number: which of its stages, and of which micro-batch.
    const int number = static_cast<int>(turn.number), first = number / (group * v) * group;
    const int size = std::min(group, m - first), place = number - first * v, round = place / size;
    const int chunk = turn.kind == OpKind::forward ? round : v - 1 - round;
    return Op{turn.kind, StageId(chunk * p + r), Micro(first + place % size)};
  };
  return {op, (split ? 3LL : 2LL) * m * v};
}

Schedule interleaved_schedule(const ScheduleProblem& problem, const Options& options) {
  Schedule schedule = orders::by_rule(problem, rule_of_ops(problem, options));
  if (!is_combined(options)) return schedule;
  for (int r = 0; r < problem.ranks; ++r) {
    auto& ops = schedule.ranks[r];
    for (std::size_t k = warm_up(problem, options, r); k < ops.size(); ++k)
      ops[k].overlapped = ops[k].kind == OpKind::forward;
  }
  return schedule;
}

OpRule interleaved_rule(const ScheduleProblem& problem, const Options& options) {
  return is_combined(options) ? OpRule() : rule_of_ops(problem, options);
}

Theory interleaved_theory(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, forwards = problem.microbatches * problem.chunks();
  Theory theory = flush_theory(p);
  const bool split = variant_option(options) == Variant::zero_bubble;
  if (problem.microbatches >= p && options.integer("group") == 0) {
    if (!split) theory.bubble_ratio = fill_drain_bubble(p, forwards, recomputation(options));
    if (split && recomputation(options) == Recomputation::no) theory.bubble_ratio = fill_drain_bubble(p, 3 * forwards);
  }
  theory.in_flight = list_of(p, [&](int r) { return std::min(warm_up(problem, options, r) + 1, forwards); });
  return theory;
}

}  // namespace

extern const System interleaved_1f1b = {
    .name = "interleaved_1f1b",
    .aliases = {"megatron"},
    .title = "Interleaved 1F1B (Megatron-LM)",
    .citation =
        "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, SC 2021 "
        "(arXiv 2104.04473)",
    .written_from = WrittenFrom::code,
    .options = {chunks_option(), rule_option.spec(), only_without(recompute_option(), "variant", {"combined"}),
                training_only(new_option(variant_option.spec())), group_option},
    .chunks = given_chunks,
    .schedule = interleaved_schedule,
    .op_rule = interleaved_rule,
    .weights = flush_with_recompute,
    .theory = interleaved_theory,
    .pairs = is_combined,
};

}  // namespace sluice
