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
#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/chunks_option.h"
#include "harness/plan/recompute_option.h"

namespace sluice {

namespace {

enum class Rule { megatron, torch };

const ChoiceOption<Rule> rule_option("rule",
                                     "megatron (micro-batches a multiple of ranks) or torch (PyTorch's relaxation)",
                                     {{"megatron", Rule::megatron}, {"torch", Rule::torch}});

int groups_of(int ranks, int microbatches) { return std::max(1, microbatches / ranks); }

void require_even_groups(int p, int m, const Options& options) {
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

int warm_up(const ScheduleProblem& problem, const Options& options, int rank) {
  const int p = problem.ranks, m = problem.microbatches, v = problem.chunks(), group = m / groups_of(p, m);
  if (rule_option(options) == Rule::megatron && m == p) return m * v;
  return std::min(2 * (p - 1 - rank) + (v - 1) * group, m * v);
}

Schedule interleaved_schedule(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, m = problem.microbatches, v = problem.chunks(), group = m / groups_of(p, m);
  require_even_groups(p, m, options);
  Schedule schedule = empty_schedule(problem);
  for (int r = 0; r < p; ++r) {
    auto& ops = schedule.ranks[r];
    const auto chunk = [&](int k) { return k % (group * v) / group; };
    const auto micro = [&](int k) { return k / (group * v) * group + k % group; };
    orders::one_forward_one_backward(
        m * v, warm_up(problem, options, r), [&](int k) { ops.push_back(forward_op(chunk(k) * p + r, micro(k))); },
        [&](int k) { ops.push_back(backward_op((v - 1 - chunk(k)) * p + r, micro(k))); });
  }
  return schedule;
}

Theory interleaved_theory(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, forwards = problem.microbatches * problem.chunks();
  Theory theory = flush_theory(p);
  if (problem.microbatches >= p) theory.bubble_ratio = fill_drain_bubble(p, forwards, recomputation(options));
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
    .options = {chunks_option(), rule_option.spec(), recompute_option()},
    .chunks = given_chunks,
    .schedule = interleaved_schedule,
    .weights = flush_with_recompute,
    .theory = interleaved_theory,
};

}  // namespace sluice
