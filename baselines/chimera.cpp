// Chimera (Li & Hoefler, SC 2021, arXiv 2107.06925), section 3.1: two pipelines against each other over the same ranks.
// Down: stage s on rank s; up: stage s on rank p - 1 - s. Every rank holds two stages, so twice the weights, and half
// of the micro-batches run in each direction. p micro-batches make a basic unit (the paper's term): with forwards and
// backwards as long as a slot, F of stage s runs in slot 2j + s and B in slot 2j + 2p - 1 - s for the j-th micro-batch
// of a direction; p even keeps the two directions out of each other's slots. p = 4, m = 4, drawn at B = 2 F; small
// letters are the later of a rank's two stages:
//
//   rank 0  F0F1..f2b2--f3b3--..B0--....B1--
//   rank 1  ..F0f2F1f3..b2--B0--b3--B1--....
//   rank 2  ..F2f0F3f1..b0--B2--b1--B3--....
//   rank 3  F2F3..f0b0--f1b1--..B2--....B3--
//
// (0 and 1 run down, 2 and 3 up; rank 0 holds stages 0 and 3.) For m > p the basic units follow one another 2p slots
// apart, "direct concatenation"; every rank runs its ops in order of their slots. Idle (p - 2) of 2m + p - 2 slots, at
// F = B. The gradients of a stage's two replicas are all-reduced before the update.
#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/plan/chain_partition.h"

namespace sluice {

namespace {

enum Direction : std::size_t { down, up };

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
  const int p = problem.ranks, m = problem.microbatches;
  const std::vector<std::size_t> direction = directions(p, m);
  std::vector<std::vector<std::pair<int, Op>>> slots(p);
  int place[2] = {0, 0};  // of the next micro-batch of each direction in its basic unit
  for (int i = 0; i < m; ++i) {
    if (i % p == 0) place[down] = place[up] = 0;
    const int first = i / p * 2 * p + 2 * place[direction[i]]++;
    for (int s = 0; s < p; ++s) {
      auto& rank = slots[direction[i] == down ? s : p - 1 - s];
      rank.push_back({first + s, forward_op(s, i)});
      rank.push_back({first + 2 * p - 1 - s, backward_op(s, i)});
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
  const int p = problem.ranks, m = problem.microbatches;
  Theory theory = flush_theory(p);
  if (m == p) theory.bubble_ratio = (p - 2) / (1.5 * m + p - 2);  // one basic unit, at B = 2 F
  if (m >= p) theory.in_flight = list_of(p, [&](int r) { return p / 2 + 1 + std::min(r, p - 1 - r); });
  return theory;
}

}  // namespace

extern const System chimera = {
    .name = "chimera",
    .title = "Chimera",
    .citation =
        "Li and Hoefler, Chimera: Efficiently Training Large-Scale Neural Networks with Bidirectional Pipelines, SC "
        "2021 (arXiv 2107.06925)",
    .written_from = {WrittenFrom::memory,
                     {{"entry of micro-batches", WrittenFrom::code}, {"slot of each op", WrittenFrom::ours}},
                     "The slot of each op is derived from when the released code starts micro-batches."},
    .require = require_pairs,
    .plan =
        [](const Problem& problem, const Options&) {
          return bidirectional_chain(problem, directions(problem.devices, problem.microbatches), "chimera");
        },
    .schedule = chimera_schedule,
    .theory = chimera_theory,
    .replicates = [](const Options&) { return true; },
};

}  // namespace sluice
