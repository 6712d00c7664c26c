// V-shaped orders with controllable memory (Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024,
// arXiv 2405.15362; order as the authors' released generator makes it, sail-sg/zero-bubble-pipeline-parallelism).
//
// Rank r holds stages r and 2p - 1 - r: an activation of the first lives long, one of the second briefly, so that all
// ranks hold the same. A building block says in which slots one micro-batch passes the ranks; repeated every six slots
// it is the steady state, and how long its F wait for their I is the memory (building_block.h). Weight gradients fill
// what is free; warm-up and end are packed within the memory (v_order.h).
//
// variant=half, p = 3, m = 4, F = I = W; small letters are the stage on the way back:
//
//   rank 0  F0F1F2....f0i0w0f1i1w1..I0W0F3f2i2w2I1W1..f3i3I2w3W2..I3W3
//   rank 1  ..F0F1..f0..f1i0w0F2..I0i1w1f2W0F3I1i2w2f3W1I2i3w3W2I3W3..
//   rank 2  ....F0f0F1f1....i0w0I0W0F2f2i1I1w1F3W1f3i2I2w2W2i3I3w3W3..
//
//   variant   micro-batches a rank holds   bubble, in ops of one stage (1F1B: 6(p - 1)), from m = 2p on
//   min       (p + 4) / 3                  4p - 5; 4p - 7 where 3 divides p
//   half      (p + 2) / 2                  3p - 4; 3p - 7 where p is even (p = 2: 1)
//   zb        p                            none on a rank's own span
//
// These forms and the blocks of half and min are of the released code; the block of zb is remembered from the paper,
// and its form was proved with this order. Where I, F and W differ, half loses nothing per micro-batch while
// W + 2I >= 2F and W + 2F >= 2I, min only while 2 max(F, I) <= min(F, I) + W.
//
// variant=auto: the shortest order for the stages' times within `memory` (memory_search.h).
#include "baselines/controllable_memory/memory_search.h"
#include "baselines/controllable_memory/v_order.h"
#include "harness/pipeline/choice_option.h"

namespace sluice {

namespace {

enum class Variant { half, min, zb, automatic };

const ChoiceOption<Variant> variant_option(
    "variant", "half (about half of 1F1B's memory), min (a third), zb (all of it, no bubble) or auto (within `memory`)",
    {{"half", Variant::half}, {"min", Variant::min}, {"zb", Variant::zb}, {"auto", Variant::automatic}});

BuildingBlock block_of(Variant variant, int ranks) {
  switch (variant) {
    case Variant::min:
      return v_min_block(ranks);
    case Variant::zb:
      return v_zb_block(ranks);
    default:
      return v_half_block(ranks);
  }
}

Schedule controllable_memory_schedule(const ScheduleProblem& problem, const Options& options) {
  const Variant variant = variant_option(options);
  VOrder order(block_of(variant, problem.ranks), problem.microbatches);
  Schedule schedule = empty_schedule(problem);
  if (variant == Variant::automatic) {
    const int given = options.integer("memory");
    schedule.ranks = shortest_v_order(problem, given == 0 ? order.peak() : given);
  } else {
    order.improve();
    schedule.ranks = order.ops();
  }
  return schedule;
}

Theory controllable_memory_theory(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, m = problem.microbatches;
  Theory theory = flush_theory(p);
  if (m < std::max(2 * p, 4)) return theory;
  const auto with_bubble = [&](double ops) { theory.bubble_ratio = ops / (6.0 * m + ops); };
  switch (variant_option(options)) {
    case Variant::min:
      with_bubble(p % 3 == 0 ? 4 * p - 7 : 4 * p - 5);
      break;
    case Variant::half:
      with_bubble(p == 2 ? 1 : p % 2 == 0 ? 3 * p - 7 : 3 * p - 4);
      break;
    default:
      break;
  }
  if (p == 1) theory.bubble_ratio = 0;
  return theory;
}

}  // namespace

extern const System controllable_memory = {
    .name = "controllable_memory",
    .aliases = {"v_half", "v_schedules"},
    .title = "V-Half, V-Min, V-ZB (controllable memory)",
    .citation = "Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024 (arXiv 2405.15362)",
    .written_from = {WrittenFrom::code,
                     {{"block of variant=zb", WrittenFrom::memory},
                      {"search of variant=auto", WrittenFrom::ours},
                      {"proof of variant=zb", WrittenFrom::ours}},
                     "The search of variant=auto and the proof of the formulas of variant=zb are ours."},
    .options = {variant_option.spec(),
                only_with(
                    {"memory",
                     "0",
                     "max activations of one stage per rank, two per micro-batch; 0: as many as with variant=half",
                     {},
                     0},
                    "variant", {"auto"})},
    .chunks = [](const Options&) { return 2; },
    .chunk_placement = ChunkPlacement::wave,
    .schedule = controllable_memory_schedule,
    .theory = controllable_memory_theory,
};

}  // namespace sluice
