// Chimera (Li & Hoefler, SC 2021, arXiv 2107.06925), section 3.1, from memory: two pipelines in opposite directions
// over the same ranks. Down: stage s on rank s; up: stage s on rank p - 1 - s. Every rank holds two stages, so twice
// the weights, and half of the micro-batches run in each direction. p micro-batches make a basic unit (the paper's
// term): with forwards and backwards as long as a slot, F of stage s runs in slot 2j + s and B in slot 2j + 2p - 1 - s
// for the j-th micro-batch of a direction; p even keeps the two directions out of each other's slots. p = 4, m = 4,
// drawn at B = 2 F; small letters are the later of a rank's two stages:
//
//   rank 0  F0F1..f2b2--f3b3--..B0--....B1--
//   rank 1  ..F0f2F1f3..b2--B0--b3--B1--....
//   rank 2  ..F2f0F3f1..b0--B2--b1--B3--....
//   rank 3  F2F3..f0b0--f1b1--..B2--....B3--
//
// (0 and 1 run down, 2 and 3 up; rank 0 holds stages 0 and 3.) For m > p the basic units follow one another 2p slots
// apart, "direct concatenation"; every rank runs its ops in order of their slots. Idle (p - 2) of 2m + p - 2 slots, at
// F = B. The gradients of a stage's two replicas are all-reduced before the update.
//
// variant=bitpipe: BitPipe (Wu, Chen and Yu, 2024, arXiv 2410.19367). Each direction is an interleaved pipeline of 2p
// stages in a V: down, stages r and 2p - 1 - r are on rank r; up, on rank p - 1 - r. So a rank holds four stages of
// half the length, as many weights as with Chimera's two, and each V turns on one rank, without a message. The slots
// are the ones above with 2p stages; the two directions still keep out of each other's slots. p = 4, m = 4 (ranks 2 and
// 3 are ranks 1 and 0 with the directions exchanged):
//
//   rank 0  0F0 0F1 3F2 4F2 3F3 4F3 7F0 7B0 7F1 7B1 4B2 3B2 4B3 3B3 0B0 0B1
//   rank 1  1F0 2F2 1F1 2F3 5F2 6F0 5F3 6F1 6B0 5B2 6B1 5B3 2B2 1B0 2B3 1B1
//
// This is the order of the released code (wuhouming/BitPipe, "direct concatenation"), whose m is a multiple of p; other
// even m are ours. It is the drawing of the code's README for m = 4. The drawing for m = 8 starts two forwards of the
// second unit before rank 0's last backward of the first, the code starts one. Idle (p - 2) of 4m + p - 2 slots, at
// F = B: derived, BitPipe's text could not be read. The code all-reduces the gradients of the later half of the
// stages before a rank's last backward ("eager synchronization"); here buckets are reduced when they are complete.
#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/choice_option.h"
#include "harness/plan/chain_partition.h"

namespace sluice {

namespace {

enum Direction : std::size_t { down, up };
enum class Variant { chimera, bitpipe };

const ChoiceOption<Variant> variant_option(
    "variant", "chimera (a stage per rank and direction) or bitpipe (BitPipe: two stages of half the length, in a V)",
    {{"chimera", Variant::chimera}, {"bitpipe", Variant::bitpipe}});

OptionSpec variant_spec() {
  OptionSpec spec = variant_option.spec();
  spec.in_digest_unless_default = true;
  return spec;
}

int stages_of_a_direction(const Options& options) { return variant_option(options) == Variant::bitpipe ? 2 : 1; }

// Per micro-batch. The first half of every basic unit runs down.
std::vector<std::size_t> directions(int ranks, int microbatches) {
  return list_of(microbatches, [&](int i) -> std::size_t {
    const int unit = std::min(ranks, microbatches - i / ranks * ranks);
    return i % ranks < (unit + 1) / 2 ? down : up;
  });
}

void require_pairs(int ranks, int microbatches, const Options&) {
  if (ranks % 2 != 0)
    throw InputError("chimera", std::to_string(ranks) + " ranks do not pair up", "use an even number");
  if (microbatches % 2 != 0)
    throw InputError("chimera", std::to_string(microbatches) + " micro-batches for two directions",
                     "use an even number");
}

Schedule chimera_schedule(const ScheduleProblem& problem, const Options&) {
  const int p = problem.ranks, m = problem.microbatches, stages = problem.stages();
  const std::vector<std::size_t> direction = directions(p, m);
  std::vector<std::vector<std::pair<int, Op>>> slots(p);
  int place[2] = {0, 0};  // of the next micro-batch of each direction in its basic unit
  for (int i = 0; i < m; ++i) {
    if (i % p == 0) place[down] = place[up] = 0;
    const int first = i / p * 2 * stages + 2 * place[direction[i]]++;
    for (int s = 0; s < stages; ++s) {
      auto& rank = slots[problem.placement.stages[s][direction[i]].index()];
      rank.push_back({first + s, forward_op(s, i)});
      rank.push_back({first + 2 * stages - 1 - s, backward_op(s, i)});
    }
  }
  Schedule schedule = empty_schedule(problem);
  for (int r = 0; r < p; ++r) {
    std::ranges::sort(slots[r], {}, &std::pair<int, Op>::first);
    for (const auto& [slot, op] : slots[r]) schedule.ranks[r].push_back(op);
  }
  return schedule;
}

Theory chimera_theory(const ScheduleProblem& problem, const Options&) {
  const int p = problem.ranks, m = problem.microbatches, v = problem.chunks();
  Theory theory = flush_theory(p);
  if (m == p) theory.bubble_ratio = (p - 2) / (1.5 * v * m + p - 2);  // one basic unit, at B = 2 F
  if (m >= p) theory.in_flight = list_of(p, [&](int r) { return v * p - p / 2 + 1 + std::min(r, p - 1 - r); });
  return theory;
}

}  // namespace

extern const System chimera = {
    .name = "chimera",
    .title = "Chimera",
    .citation =
        "Li and Hoefler, Chimera: Efficiently Training Large-Scale Neural Networks with Bidirectional Pipelines, SC "
        "2021 (arXiv 2107.06925); variant=bitpipe: Wu, Chen and Yu, BitPipe: Bidirectional Interleaved Pipeline "
        "Parallelism for Accelerating Large Models Training, 2024 (arXiv 2410.19367)",
    .written_from =
        {WrittenFrom::memory,
         {{"entry of micro-batches", WrittenFrom::code},
          {"slot of each op", WrittenFrom::ours},
          {"variant=bitpipe", WrittenFrom::code},
          {"partial basic units and bubble of variant=bitpipe", WrittenFrom::ours}},
         "The slot of each op is derived from when the released code starts micro-batches; of variant=bitpipe, the "
         "bubble and numbers of micro-batches that are no multiple of the ranks are ours."},
    .options = {variant_spec()},
    .require = require_pairs,
    .chunks = stages_of_a_direction,
    .plan =
        [](const Problem& problem, const Options& options) {
          return bidirectional_chain(problem, directions(problem.devices, problem.microbatches), "chimera",
                                     stages_of_a_direction(options));
        },
    .schedule = chimera_schedule,
    .theory = chimera_theory,
    .replicates = [](const Options&) { return true; },
};

}  // namespace sluice
