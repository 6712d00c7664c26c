// PipeOffload (Wan et al., ICML 2025, arXiv 2503.01328): activations wait in the host's memory between F and I. What is
// here follows the authors' released scheduler (sail-sg/zero-bubble-pipeline-parallelism), as read in code; of the
// paper only the abstract was read.
//
// Interleaved in groups: stage c p + r on rank r, micro-batches in groups of g, ceil(p / 2) <= g <= p. Micro-batch
// q g + j passes rank r at slots (F, I and W of one slot each)
//
//   F of stage c   3 g v q + 3 j + 3 g c + r
//   I of stage c   3 g v q + 3 j + 3 g (v - 1) + p + 2 (p - 1 - r) + 3 g (v - 1 - c)      W follows at once
//
// g = p is interleaved 1F1B, v = 1 1F1B; less holds less, g (v - 1) + p - r activations of one stage on rank r, and
// waits longer. p = 2, m = 4, v = 2, g = 2; small letters are the second stage of a rank:
//
//   rank 0  F0F1f0f1..i0w0F2i1w1F3I0W0f2I1W1f3i2w2..i3w3I2W2I3W3
//   rank 1  ..F0F1f0i0w0f1i1w1F2I0W0F3I1W1f2i2w2f3i3w3I2W2I3W3..
//
// by=chunks: activations of the first `offloaded` stages of every rank move, which live longest (copy_plan.h); with n
// of them, while the link keeps up, g (v - 1 - n) + p - r stay. 0: as many stages as there is room for.
// by=lifetime: not in the code; the rule of the abstract: any activation, the longest lifetime for its size first
// (lifetime_plan.h), until `memory` holds or the link is full; also for ranks that share no link.
#include <algorithm>

#include "baselines/pipe_offload/copy_plan.h"
#include "baselines/pipe_offload/lifetime_plan.h"
#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/plan/chunks_option.h"

namespace sluice {

namespace {

enum class By { chunks, lifetime };

const ChoiceOption<By> by_option("by",
                                 "what moves: chunks (the first stages of every rank) or lifetime (the "
                                 "activations with the longest lifetime for their size)",
                                 {{"chunks", By::chunks}, {"lifetime", By::lifetime}});

int group_of(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, given = options.integer("group");
  if (given == 0) return p;
  if (given < (p + 1) / 2)
    throw InputError(
        "pipe_offload",
        "groups of " + std::to_string(given) + " micro-batches are too small for " + std::to_string(p) + " ranks",
        "give at least " + std::to_string((p + 1) / 2));
  return std::min(given, p);
}

Schedule pipe_offload_schedule(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, m = problem.microbatches, v = problem.chunks(), g = group_of(problem, options);
  Schedule schedule = empty_schedule(problem);
  for (int r = 0; r < p; ++r) {
    std::vector<std::pair<std::int64_t, Op>> ops;
    for (int i = 0; i < m; ++i)
      for (int c = 0; c < v; ++c) {
        const std::int64_t first = 3LL * g * v * (i / g) + 3LL * (i % g);
        const std::int64_t backward = first + 3LL * g * (v - 1) + p + 2LL * (p - 1 - r) + 3LL * g * (v - 1 - c);
        ops.emplace_back(first + 3LL * g * c + r, forward_op(c * p + r, i));
        ops.emplace_back(backward, input_gradient_op(c * p + r, i));
        ops.emplace_back(backward + 1, weight_gradient_op(c * p + r, i));
      }
    std::ranges::sort(ops, {}, &std::pair<std::int64_t, Op>::first);
    for (const auto& [slot, op] : ops) schedule.ranks[r].push_back(op);
  }
  return schedule;
}

// Per stage, seconds of one copy.
std::vector<double> copy_seconds(const ScheduleProblem& problem, const Options& options) {
  const int percent = options.integer("copy_percent");
  std::vector<double> seconds;
  for (int s = 0; s < problem.stages(); ++s) {
    const double work = seconds_of(problem, forward_op(s, 0)) + seconds_of(problem, backward_op(s, 0));
    const bool known = percent == 0 && !problem.host_copies.empty();
    seconds.push_back(known ? problem.host_copies[s].value : work * (percent == 0 ? 0.5 : percent / 100.0));
  }
  return seconds;
}

Offload pipe_offload_moves(const ScheduleProblem& problem, const Schedule& schedule, const Options& options) {
  const int given = options.integer("offloaded"), v = problem.chunks();
  const std::vector<double> seconds = copy_seconds(problem, options);
  if (by_option(options) == By::lifetime)
    return moves_of(plan_by_lifetime(problem, schedule, seconds, options.integer("memory")));
  double work = 0;
  for (int s = 0; s < problem.stages(); ++s)
    work = std::max(work, seconds_of(problem, forward_op(s, 0)) + seconds_of(problem, backward_op(s, 0)));
  // Slots have one length; where copies take no time, a short one.
  const double slot = std::max(std::ranges::max(seconds), 1e-3 * work);
  if (given > v)
    throw InputError(
        "pipe_offload",
        "activations of " + std::to_string(given) + " stages of every rank cannot move, there are " + std::to_string(v),
        "give offloaded=" + std::to_string(v) + " or less, or more chunks");
  for (int n = given == 0 ? v : given; n > 0; --n) {
    if (const auto plan = plan_copies(problem, schedule, n, slot)) return moves_of(*plan);
    if (given != 0)
      throw InputError(
          "pipe_offload",
          "there is no room on the host link for the activations of " + std::to_string(given) + " stages of every rank",
          "offload fewer (offloaded=" + std::to_string(given - 1) + "; 0 takes as many as there is room for)");
  }
  return {};
}

Theory pipe_offload_theory(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, m = problem.microbatches, v = problem.chunks();
  Theory theory = flush_theory(p);
  if (group_of(problem, options) != p || m % p != 0) return theory;
  theory.bubble_ratio = 2.0 * (p - 1) / (3.0 * m * v + 2 * (p - 1));
  if (m >= 2 * p) theory.in_flight = list_of(p, [&](int r) { return p * (v - 1) + p - r; });
  return theory;
}

}  // namespace

extern const System pipe_offload = {
    .name = "pipe_offload",
    .aliases = {"pipeoffload"},
    .title = "PipeOffload",
    .citation =
        "Wan et al., PipeOffload: Improving Scalability of Pipeline Parallelism with Memory Optimization, ICML "
        "2025 (arXiv 2503.01328)",
    .written_from = {WrittenFrom::code,
                     {{"by=lifetime", WrittenFrom::abstract}, {"times of copies with by=lifetime", WrittenFrom::ours}},
                     "The times at which copies run with by=lifetime are ours."},
    .options =
        {chunks_option(),
         training_only(by_option.spec()),
         {.name = "offloaded",
          .default_value = "0",
          .help = "stages of every rank, from its first, whose activations move; 0: as many as there is room "
                  "for",
          .minimum = 0,
          .only_with = {{"by", {"chunks"}}},
          .training_only = true},
         {.name = "memory",
          .default_value = "0",
          .help = "max activations of one stage per rank; 0: as few as the link allows",
          .minimum = 0,
          .only_with = {{"by", {"lifetime"}}},
          .training_only = true},
         {"group", "0", "micro-batches of a group, from half the ranks (rounded up) to all; 0: all", {}, 0},
         {.name = "copy_percent",
          .default_value = "0",
          .help = "duration of a copy in the plan, in percent of a stage's F + I + W; 0: by the cluster's host link, "
                  "or 50 if it has none",
          .minimum = 0,
          .training_only = true}},
    .chunks = given_chunks,
    .schedule = pipe_offload_schedule,
    .theory = pipe_offload_theory,
    .offload = pipe_offload_moves,
};

}  // namespace sluice
