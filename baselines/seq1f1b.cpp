// Seq1F1B (Sun et al., 2024, arXiv 2406.03488): 1F1B over chunks of sequences in place of micro-batches. A forward of
// chunk c reads the keys and values of the chunks before it, so that forwards go through the k chunks of a micro-batch
// in order; the gradients of a chunk's keys and values are complete when the chunks after it are back, so that
// backwards go the other way: first in, first out between micro-batches, last in, first out inside one. Rank r runs
// k - 1 + p - 1 - r forwards, then one forward and one backward in turn; k - 1 of them because the first backward is of
// the last chunk. p = 2, m = 2, k = 2, B = 2 F:
//
//   rank 0  F0.0F0.1F1.0........B0.1----F1.1B0.0----....B1.1----B1.0----
//   rank 1  ....F0.0F0.1B0.1----F1.0B0.0----F1.1B1.1----B1.0----........
//
// Makespan (m k + p - 1)(F + B) of a chunk, so the bubble of 1F1B with k times its micro-batches, for (p - r + k - 1) /
// k micro-batches in flight instead of p - r, and k times as many messages of 1 / k of the bytes. That is for chunks
// that take equal times. Attention of a later chunk takes longer, and the order has no slack for it: cut=balanced, as
// in the abstract, gives every chunk the same FLOPs, the first the most positions, and with them the most memory;
// cut=even gives all the same positions.
//
// variant=split (a figure of the authors' repository; no code): the weight gradient apart, as ZB-H1 has it: rank r runs
// its first W after I number r. variant=interleaved (a figure, and code): v stages a rank, in groups of g chunks of
// sequences as interleaved 1F1B has groups of micro-batches; (v - 1) g + 2(p - 1 - r) + k - 1 forwards first. The
// figure has g = p k, the code g = p (and all forwards first where m = p). Both take the same time and differ in
// memory. The default is the least possible: the least multiple of k that is p or more.
//
// The order was read in the authors' code (thunlp/Seq1F1B) and in a second implementation (sail-sg's), the split and
// interleaved ones in the figures; makespans and memory are derived. Of the paper only the abstract was read.
#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/chunks_option.h"
#include "harness/plan/sequence_chunks_option.h"

namespace sluice {

namespace {

enum class Variant { whole, split, interleaved };
enum class Group { least, figure, released };
enum class Cut { balanced, even };

const ChoiceOption<Variant> variant_option(
    "variant", "whole (whole backwards), split (weight gradients apart) or interleaved (`chunks` stages a rank)",
    {{"whole", Variant::whole}, {"split", Variant::split}, {"interleaved", Variant::interleaved}});
const ChoiceOption<Group> group_option(
    "group",
    "sequence chunks in a group, for p ranks and k = sequence_chunks: least (the smallest multiple of k from p on), "
    "figure (p k, as the authors draw it) or released (p, as in their code)",
    {{"least", Group::least}, {"figure", Group::figure}, {"released", Group::released}});
const ChoiceOption<Cut> cut_option("cut", "chunks of equal FLOPs (balanced) or of equal length (even)",
                                   {{"balanced", Cut::balanced}, {"even", Cut::even}});

// Backward number j: micro-batches in order, the chunks of each from the last one.
int backward_unit(int j, int k) { return j / k * k + (k - 1 - j % k); }

Schedule whole_schedule(const ScheduleProblem& problem) {
  Schedule schedule = empty_schedule(problem);
  const int p = problem.ranks, k = problem.sequence_chunks, units = schedule.microbatches;
  for (int r = 0; r < p; ++r) {
    auto& ops = schedule.ranks[r];
    orders::one_forward_one_backward(
        units, std::min(k - 1 + p - 1 - r, units), [&](int j) { ops.push_back(forward_op(r, j)); },
        [&](int j) { ops.push_back(backward_op(r, backward_unit(j, k))); });
  }
  return schedule;
}

Schedule split_schedule(const ScheduleProblem& problem) {
  Schedule schedule = empty_schedule(problem);
  const int p = problem.ranks, k = problem.sequence_chunks, units = schedule.microbatches;
  for (int r = 0; r < p; ++r) {
    auto& ops = schedule.ranks[r];
    int weight_gradients = 0;
    const auto weight_gradient = [&] { ops.push_back(weight_gradient_op(r, backward_unit(weight_gradients++, k))); };
    orders::one_forward_one_backward(
        units, std::min(k - 1 + p - 1 - r, units), [&](int j) { ops.push_back(forward_op(r, j)); },
        [&](int j) {
          ops.push_back(input_gradient_op(r, backward_unit(j, k)));
          if (j >= r) weight_gradient();
        });
    while (weight_gradients < units) weight_gradient();
  }
  return schedule;
}

// Chunks of sequences in a group. Throws InputError where there can be no such groups.
int group_of(int p, int m, int k, const Options& options) {
  const Group chosen = group_option(options);
  const int least = k * ((p + k - 1) / k), g = chosen == Group::figure ? p * k : chosen == Group::released ? p : least;
  if (g % k != 0)
    throw InputError(
        "seq1f1b",
        "a group of " + std::to_string(g) + " chunks holds no whole number of sequences of " + std::to_string(k),
        "with group=released let sequence_chunks divide the ranks");
  if (m * k % g != 0)
    throw InputError("seq1f1b",
                     std::to_string(m) + " micro-batches of " + std::to_string(k) +
                         " chunks make no whole number of groups of " + std::to_string(g),
                     "use a multiple of " + std::to_string(g / k) + " micro-batches");
  return g;
}

int interleaved_warm_up(const ScheduleProblem& problem, const Options& options, int rank) {
  const int p = problem.ranks, m = problem.microbatches, k = problem.sequence_chunks, v = problem.chunks();
  const int all = m * k * v, g = group_of(p, m, k, options);
  if (group_option(options) == Group::released && m == p) return all;
  return std::min((v - 1) * g + 2 * (p - 1 - rank) + k - 1, all);
}

Schedule interleaved_schedule(const ScheduleProblem& problem, const Options& options) {
  Schedule schedule = empty_schedule(problem);
  const int p = problem.ranks, m = problem.microbatches, k = problem.sequence_chunks, v = problem.chunks();
  const int g = group_of(p, m, k, options);
  for (int r = 0; r < p; ++r) {
    auto& ops = schedule.ranks[r];
    const auto stage = [&](int j) { return j % (g * v) / g; };
    const auto unit = [&](int j) { return j / (g * v) * g + j % g; };
    orders::one_forward_one_backward(
        m * k * v, interleaved_warm_up(problem, options, r),
        [&](int j) { ops.push_back(forward_op(stage(j) * p + r, unit(j))); },
        [&](int j) { ops.push_back(backward_op((v - 1 - stage(j)) * p + r, backward_unit(unit(j), k))); });
  }
  return schedule;
}

Schedule seq1f1b_schedule(const ScheduleProblem& problem, const Options& options) {
  switch (variant_option(options)) {
    case Variant::whole:
      return whole_schedule(problem);
    case Variant::split:
      return split_schedule(problem);
    case Variant::interleaved:
      return interleaved_schedule(problem, options);
  }
  return {};
}

Theory seq1f1b_theory(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, m = problem.microbatches, k = problem.sequence_chunks, units = m * k;
  Theory theory = flush_theory(p);
  if (variant_option(options) == Variant::interleaved) {
    const int forwards = units * problem.chunks();
    // All forwards first: as in interleaved 1F1B, the time is the same.
    theory.bubble_ratio = fill_drain_bubble(p, forwards);
    theory.in_flight =
        list_of(p, [&](int r) { return std::min(interleaved_warm_up(problem, options, r) + 1, forwards); });
    return theory;
  }
  if (variant_option(options) == Variant::whole) theory.bubble_ratio = fill_drain_bubble(p, units);
  // Of split backwards at F = I = W: p - 1 forwards of a chunk, once there are as many chunks after the first sequence.
  else if ((m - 1) * k >= p - 1)
    theory.bubble_ratio = fill_drain_bubble(p, 3 * units);
  theory.in_flight = list_of(p, [&](int r) { return std::min(units, p - r + k - 1); });
  return theory;
}

int stages_of(const Options& options) {
  return variant_option(options) == Variant::interleaved ? given_chunks(options) : 1;
}

}  // namespace

extern const System seq1f1b = {
    .name = "seq1f1b",
    .title = "Seq1F1B",
    .citation =
        "Sun et al., Seq1F1B: Efficient Sequence-Level Pipeline Parallelism for Large Language Model Training, 2024 "
        "(arXiv 2406.03488); order as in the authors' code",
    .written_from = {WrittenFrom::code,
                     {{"cut=balanced", WrittenFrom::abstract},
                      {"makespan and memory", WrittenFrom::ours},
                      {"order of variant=split", WrittenFrom::ours}},
                     "Makespans and memory are derived here; the order of variant=split was worked out from a figure "
                     "of the authors, without code."},
    .options = {sequence_chunks_option(), training_only(only_without(cut_option.spec(), "sequence_chunks", {"1"})),
                variant_option.spec(), only_with(chunks_option(), "variant", {"interleaved"}),
                only_with(group_option.spec(), "variant", {"interleaved"})},
    .chunks = stages_of,
    .sequence =
        [](const Options& options) {
          return SequenceChunks{given_sequence_chunks(options), cut_option(options) == Cut::balanced};
        },
    .schedule = seq1f1b_schedule,
    .theory = seq1f1b_theory,
};

}  // namespace sluice
