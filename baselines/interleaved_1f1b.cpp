// Interleaved 1F1B (Narayanan et al., SC 2021, arXiv 2104.04473), section 2.2: v stages a rank,
// stage c p + r on rank r, so that the pipeline fills and drains in steps of 1/v of a rank's work.
// Micro-batches go round in groups of g = p: step k runs stage (k mod g v) / g of the rank,
// backwards the same from the last stage. Rank r runs 2(p - 1 - r) + (v - 1) g forwards, then one
// forward and one backward in turn. p = 2, m = 4, v = 2, B = 2 F; small letters are the second
// stage of a rank:
//
//   rank 0  F0F1f0f1F2..b0--F3b1--f2B0--f3B1--..b2--..b3--B2--B3--
//   rank 1  ..F0F1f0b0--f1b1--F2B0--F3B1--f2b2--f3b3--B2--B3--....
//
// Makespan (m v + p - 1)(F + B) of a stage, so the bubble of 1F1B divided by v, for v times the
// messages.
//
// rule=megatron: m must be a multiple of p, and with m = p all forwards run first, as in
//   Megatron-LM's runtime.
// rule=torch: PyTorch's ScheduleInterleaved1F1B: groups of g = m / max(1, m / p) micro-batches, so
//   that m need only be a multiple of the number of groups.
#include <algorithm>

#include "harness/base/error.h"
#include "harness/plan/chain_partition.h"
#include "harness/plan/recompute_option.h"

namespace sluice {

namespace {

// Micro-batches of a group. Throws InputError if the groups do not come out even.
int group_of(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, m = problem.microbatches;
  const int groups = std::max(1, m / p);
  if (options.text("rule") == "megatron" && m % p != 0)
    throw InputError("interleaved_1f1b",
                     std::to_string(m) + " micro-batches are not a multiple of " + std::to_string(p) + " ranks",
                     "change one of them, or set rule=torch");
  if (m % groups != 0)
    throw InputError("interleaved_1f1b",
                     std::to_string(m) + " micro-batches do not make " + std::to_string(groups) + " equal groups for " +
                         std::to_string(p) + " ranks",
                     "use a multiple of " + std::to_string(p));
  return m / groups;
}

int warm_up(const ScheduleProblem& problem, const Options& options, int rank) {
  const int p = problem.ranks, m = problem.microbatches, v = problem.chunks();
  if (options.text("rule") == "megatron" && m == p) return m * v;
  return std::min(2 * (p - 1 - rank) + (v - 1) * group_of(problem, options), m * v);
}

Schedule interleaved_schedule(const ScheduleProblem& problem, const Options& options) {
  Schedule schedule = empty_schedule(problem.ranks, problem.microbatches);
  const int p = problem.ranks, v = problem.chunks(), total = problem.microbatches * v;
  const int group = group_of(problem, options);
  for (int r = 0; r < p; ++r) {
    auto& ops = schedule.ranks[static_cast<std::size_t>(r)];
    ops.reserve(2 * static_cast<std::size_t>(total));
    const auto chunk = [&](int k) { return k % (group * v) / group; };
    const auto micro = [&](int k) { return k / (group * v) * group + k % group; };
    const auto forward = [&](int k) { ops.push_back(forward_op(chunk(k) * p + r, micro(k))); };
    const auto backward = [&](int k) { ops.push_back(backward_op((v - 1 - chunk(k)) * p + r, micro(k))); };
    const int warm = warm_up(problem, options, r);
    for (int k = 0; k < warm; ++k) forward(k);
    for (int k = 0; k < total - warm; ++k) {
      forward(warm + k);
      backward(k);
    }
    for (int k = total - warm; k < total; ++k) backward(k);
  }
  return schedule;
}

Theory interleaved_theory(const ScheduleProblem& problem, const Options& options) {
  const auto p = static_cast<std::size_t>(problem.ranks);
  const int total = problem.microbatches * problem.chunks();
  Theory theory{.weight_versions = std::vector<int>(p, 1), .staleness = std::vector<int>(p, 0)};
  if (problem.microbatches >= problem.ranks) theory.bubble_ratio = (problem.ranks - 1.0) / (total + problem.ranks - 1);
  if (theory.bubble_ratio && recomputes(options)) {
    theory.bubble_ratio = recomputed_bubble_ratio(problem.ranks, total);
    if (options.text("recompute") == "needed") theory.bubble_ratio.reset();
  }
  for (int r = 0; r < problem.ranks; ++r) theory.in_flight.push_back(std::min(warm_up(problem, options, r) + 1, total));
  return theory;
}

}  // namespace

extern const System interleaved_1f1b;
const System interleaved_1f1b = {
    .name = "interleaved_1f1b",
    .aliases = {"megatron"},
    .title = "Interleaved 1F1B (Megatron-LM)",
    .citation =
        "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using "
        "Megatron-LM, SC 2021 (arXiv 2104.04473)",
    .synchronous = true,
    .options = {{"chunks", "2", "stages on every rank"},
                {"rule",
                 "megatron",
                 "megatron (micro-batches a multiple of ranks) or torch (PyTorch's relaxation)",
                 {"megatron", "torch"}},
                recompute_option()},
    .plan =
        [](const Problem& p, const Options& options) {
          return chunked_chain(p, options.integer("chunks"), ChunkPlacement::loop, "interleaved_1f1b");
        },
    .schedule = interleaved_schedule,
    .weights = [](const ScheduleProblem&, const Options& options) { return flush_with_recompute(options); },
    .theory = interleaved_theory,
    .chunks = [](const Options& options) { return options.integer("chunks"); },
};

}  // namespace sluice
