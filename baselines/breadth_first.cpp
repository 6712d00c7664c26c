// Breadth-first pipeline parallelism (Lamy-Poirier, MLSys 2023, arXiv 2211.05953), section 4: v
// stages a rank, stage c p + r on rank r; all micro-batches through the rank's first stage, then
// all through its second, and so on, backwards the same from the last. p = 2, m = 4, v = 2,
// B = 2 F; small letters are the second stage of a rank:
//
//   rank 0  F0F1F2F3f0f1f2f3......b0--b1--b2--b3--B0--B1--B2--B3--
//   rank 1  ..F0F1F2F3f0f1f2f3b0--b1--b2--b3--B0--B1--B2--B3--....
//
// Makespan (m v + p - 1)(F + B) of a stage for m >= p, as interleaved 1F1B, with all m v
// activations held. In return a stage's weights are gathered twice an update and its gradients
// scattered once, whatever m is, and messages hide behind the next micro-batch where m > p. With
// m < p every stage waits for the first micro-batch to come round the ring.
//
// backward=fifo is the author's order (Fast-LLM), backward=lifo that of PyTorch's
// ScheduleLoopedBFS.
#include <algorithm>

#include "harness/plan/chain_partition.h"
#include "harness/plan/recompute_option.h"

namespace sluice {

static Schedule breadth_first_schedule(const ScheduleProblem& problem, const Options& options) {
  Schedule schedule = empty_schedule(problem.ranks, problem.microbatches);
  const bool lifo = options.text("backward") == "lifo";
  const int p = problem.ranks, v = problem.chunks(), m = problem.microbatches;
  for (int r = 0; r < p; ++r) {
    auto& ops = schedule.ranks[static_cast<std::size_t>(r)];
    ops.reserve(2 * static_cast<std::size_t>(m * v));
    for (int c = 0; c < v; ++c)
      for (int i = 0; i < m; ++i) ops.push_back(forward_op(c * p + r, i));
    for (int c = v - 1; c >= 0; --c)
      for (int i = 0; i < m; ++i) ops.push_back(backward_op(c * p + r, lifo ? m - 1 - i : i));
  }
  return schedule;
}

static Theory breadth_first_theory(const ScheduleProblem& problem, const Options& options) {
  const auto ranks = static_cast<std::size_t>(problem.ranks);
  const int p = problem.ranks, v = problem.chunks(), m = problem.microbatches;
  Theory theory{.in_flight = std::vector<int>(ranks, m * v),
                .weight_versions = std::vector<int>(ranks, 1),
                .staleness = std::vector<int>(ranks, 0)};
  // In F + B of a stage. Below m = p, every round but the last takes the p steps of the ring.
  const int makespan = std::max(m, p) * (v - 1) + m + p - 1;
  if (!recomputes(options)) theory.bubble_ratio = 1 - static_cast<double>(m * v) / makespan;
  if (options.text("recompute") == "all" && m >= p) theory.bubble_ratio = recomputed_bubble_ratio(p, m * v);
  if (m < p) theory.note = "fewer micro-batches than ranks: every stage waits for the ring";
  return theory;
}

extern const System breadth_first;
const System breadth_first = {
    .name = "breadth_first",
    .aliases = {"bfpp"},
    .title = "Breadth-first",
    .citation = "Lamy-Poirier, Breadth-First Pipeline Parallelism, MLSys 2023 (arXiv 2211.05953)",
    .synchronous = true,
    .options =
        {{"chunks", "2", "stages on every rank"},
         {"backward", "fifo", "order of a stage's backwards: fifo (the author's) or lifo (PyTorch)", {"fifo", "lifo"}},
         recompute_option()},
    .plan =
        [](const Problem& p, const Options& options) {
          return chunked_chain(p, options.integer("chunks"), ChunkPlacement::loop, "breadth_first");
        },
    .schedule = breadth_first_schedule,
    .weights = [](const ScheduleProblem&, const Options& options) { return flush_with_recompute(options); },
    .theory = breadth_first_theory,
    .chunks = [](const Options& options) { return options.integer("chunks"); },
    .sharding =
        [](const ScheduleProblem&, const Options&) {
          return Sharding{.gather = Sharding::Gather::on_visit, .reduce = Sharding::Reduce::per_unit};
        },
};

}  // namespace sluice
