// SlimPipe (Li et al., SC 2025, arXiv 2504.14519): 1F1B over k equal chunks of every sequence ("slices"), with one
// sequence more in flight than its chunks need. Forwards go through the chunks in order, backwards the other way, as in
// Seq1F1B; rank r runs w = k - 1 + 2(p - 1 - r) forwards first, so that the ranks run in lockstep: a backward climbs
// one rank a step, and a message has a whole step to arrive. p = 2, m = 2, k = 2, B = 2 F:
//
//   rank 0  F0.0F0.1F1.0F1.1B0.1----....B0.0----....B1.1----B1.0----
//   rank 1  ....F0.0F0.1B0.1----F1.0B0.0----F1.1B1.1----B1.0----........
//
// Makespan (m k + p - 1)(F + B) of a chunk; k + 2(p - 1 - r) chunks in flight on rank r: as k grows, one micro-batch of
// the rank's own layers, 1 / p of the model's activations. With chunks that take unequal times, as those of a causal
// model do, it loses less than Seq1F1B's order does.
//
// chunks=v, v > 1: v stages a rank. The forwards of one micro-batch go, in cycles of g chunks, through the rank's
// stages in turn, its backwards exactly the other way, micro-batches one after the other; w = k v - 1 + 2(p - 1 - r),
// where g is the least divisor of k that is p or more. k must be p or more.
//
// Left out: the exchange of attention between ranks (a rank with a long chunk hands blocks of its queries, keys and
// values to one with a short chunk), which evens out the times of equal chunks, and the output head shared by all
// ranks.
//
// The orders were read in code that is said to be the authors' (Cuiym715/Megatron-LM), which has an exchange for
// interleaved orders only; of the paper the abstract and the introduction were read. Makespans and memory are derived.
#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/chunks_option.h"
#include "harness/plan/sequence_chunks_option.h"

namespace sluice {

namespace {

// Chunks of a sequence that go through a rank's stages together: the least divisor of k that is p or more.
int cycle_of(int p, int k) {
  if (k < p)
    throw InputError(
        "slimpipe",
        std::to_string(k) + " chunks of a sequence on " + std::to_string(p) + " ranks with several stages each",
        "set sequence_chunks to as many as there are ranks, or more");
  int g = p;
  while (k % g != 0) ++g;
  return g;
}

int warm_up(const ScheduleProblem& problem, int rank) {
  const int kv = problem.sequence_chunks * problem.chunks();
  return std::min(kv - 1 + 2 * (problem.ranks - 1 - rank), problem.microbatches * kv);
}

Schedule slimpipe_schedule(const ScheduleProblem& problem, const Options&) {
  Schedule schedule = empty_schedule(problem);
  const int p = problem.ranks, k = problem.sequence_chunks, v = problem.chunks();
  const int g = v == 1 ? k : cycle_of(p, k);
  for (int r = 0; r < p; ++r) {
    auto& ops = schedule.ranks[r];
    // Place j in the forwards of one micro-batch.
    const auto stage = [&](int j) { return j % (g * v) / g * p + r; };
    const auto chunk = [&](int j) { return j / (g * v) * g + j % g; };
    orders::one_forward_one_backward(
        problem.microbatches * k * v, warm_up(problem, r),
        [&](int j) { ops.push_back(forward_op(stage(j % (k * v)), j / (k * v) * k + chunk(j % (k * v)))); },
        [&](int j) {
          const int place = k * v - 1 - j % (k * v);
          ops.push_back(backward_op(stage(place), j / (k * v) * k + chunk(place)));
        });
  }
  return schedule;
}

Theory slimpipe_theory(const ScheduleProblem& problem, const Options&) {
  const int p = problem.ranks, all = problem.microbatches * problem.sequence_chunks * problem.chunks();
  Theory theory = flush_theory(p);
  theory.bubble_ratio = fill_drain_bubble(p, all);
  theory.in_flight = list_of(p, [&](int r) { return std::min(warm_up(problem, r) + 1, all); });
  return theory;
}

}  // namespace

extern const System slimpipe = {
    .name = "slimpipe",
    .title = "SlimPipe (without its exchange of attention)",
    .citation =
        "Li et al., SlimPipe: Memory-Thrifty and Efficient Pipeline Parallelism for Long-Context LLM Training, SC 2025 "
        "(arXiv 2504.14519); order as in released code",
    .written_from = {WrittenFrom::code,
                     {{"makespan and memory", WrittenFrom::ours}},
                     "Makespans and memory are derived here; the exchange of attention between ranks is left out."},
    .options = {sequence_chunks_option(), {"chunks", "1", "stages on every rank"}},
    .chunks = given_chunks,
    .sequence =
        [](const Options& options) {
          return SequenceChunks{given_sequence_chunks(options), false};
        },
    .schedule = slimpipe_schedule,
    .theory = slimpipe_theory,
};

}  // namespace sluice
