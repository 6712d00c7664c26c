// Chimera (Li & Hoefler, SC 2021, arXiv 2107.06925), section 3.1: two pipelines against each other
// over the same ranks. Down: stage s on rank s; up: stage s on rank p - 1 - s. Every rank holds two
// stages, so twice the weights, and half of the micro-batches take each way. p micro-batches make a
// basic unit: with forwards and backwards as long as a slot, F of stage s runs in slot 2j + s and B
// in slot 2j + 2p - 1 - s for the j-th micro-batch of a way; p even keeps the two ways out of each
// other's slots. p = 4, m = 4, drawn at B = 2 F; small letters are the later of a rank's two
// stages:
//
//   rank 0  F0F1..f2b2--f3b3--..B0--....B1--
//   rank 1  ..F0f2F1f3..b2--B0--b3--B1--....
//   rank 2  ..F2f0F3f1..b0--B2--b1--B3--....
//   rank 3  F2F3..f0b0--f1b1--..B2--....B3--
//
// (0 and 1 run down, 2 and 3 up; rank 0 holds stages 0 and 3.) For m > p the units follow one
// another 2p slots apart, "direct concatenation"; every rank runs its ops in order of their slots.
// Idle (p - 2) of 2m + p - 2 slots, at F = B. The gradients of the two copies of a stage are
// all-reduced before the update.
#include <algorithm>

#include "harness/base/error.h"
#include "harness/plan/chain_partition.h"

namespace sluice {

namespace {

// 0: down, 1: up. The first half of every unit runs down.
std::vector<std::size_t> directions(int ranks, int microbatches) {
  std::vector<std::size_t> result;
  for (int i = 0; i < microbatches; ++i) {
    const int unit = std::min(ranks, microbatches - i / ranks * ranks);
    result.push_back(i % ranks < (unit + 1) / 2 ? 0 : 1);
  }
  return result;
}

void require_pairs(int ranks, int microbatches) {
  if (ranks % 2 != 0)
    throw InputError("chimera", std::to_string(ranks) + " ranks do not pair up", "use an even number");
  if (microbatches % 2 != 0)
    throw InputError("chimera", std::to_string(microbatches) + " micro-batches for two directions",
                     "use an even number");
}

Plan chimera_plan(const Problem& problem, const Options&) {
  require_pairs(problem.devices, problem.microbatches);
  return bidirectional_chain(problem, directions(problem.devices, problem.microbatches), "chimera");
}

Schedule chimera_schedule(const ScheduleProblem& problem, const Options&) {
  const int p = problem.ranks, m = problem.microbatches;
  require_pairs(p, m);
  const std::vector<std::size_t> direction = directions(p, m);
  std::vector<std::vector<std::pair<int, Op>>> slots(static_cast<std::size_t>(p));
  int place[2] = {0, 0};  // of the next micro-batch of each way in its unit
  for (int i = 0; i < m; ++i) {
    if (i % p == 0) place[0] = place[1] = 0;
    const std::size_t way = direction[static_cast<std::size_t>(i)];
    const int first = i / p * 2 * p + 2 * place[way]++;
    for (int s = 0; s < p; ++s) {
      auto& rank = slots[static_cast<std::size_t>(way == 0 ? s : p - 1 - s)];
      rank.push_back({first + s, forward_op(s, i)});
      rank.push_back({first + 2 * p - 1 - s, backward_op(s, i)});
    }
  }
  Schedule schedule = empty_schedule(p, m);
  for (std::size_t r = 0; r < slots.size(); ++r) {
    std::ranges::sort(slots[r], {}, &std::pair<int, Op>::first);
    for (const auto& [slot, op] : slots[r]) schedule.ranks[r].push_back(op);
  }
  return schedule;
}

Theory chimera_theory(const ScheduleProblem& problem, const Options&) {
  const auto ranks = static_cast<std::size_t>(problem.ranks);
  const int p = problem.ranks, m = problem.microbatches;
  Theory theory{.weight_versions = std::vector<int>(ranks, 1), .staleness = std::vector<int>(ranks, 0)};
  // One unit, at B = 2 F.
  if (m == p) theory.bubble_ratio = (p - 2) / (1.5 * m + p - 2);
  if (m >= p)
    for (int r = 0; r < p; ++r) theory.in_flight.push_back(p / 2 + 1 + std::min(r, p - 1 - r));
  return theory;
}

}  // namespace

extern const System chimera;
const System chimera = {
    .name = "chimera",
    .aliases = {},
    .title = "Chimera",
    .citation =
        "Li and Hoefler, Chimera: Efficiently Training Large-Scale Neural Networks with "
        "Bidirectional Pipelines, SC 2021 (arXiv 2107.06925)",
    .synchronous = true,
    .options = {},
    .plan = chimera_plan,
    .schedule = chimera_schedule,
    .weights = [](const ScheduleProblem&, const Options&) { return WeightRule{}; },
    .theory = chimera_theory,
};

}  // namespace sluice
