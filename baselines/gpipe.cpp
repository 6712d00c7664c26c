// GPipe (Huang et al., NeurIPS 2019, arXiv 1811.06965), section 2.3: all forwards, then all
// backwards, then one synchronous update. p = 3, m = 4, backward=lifo as the paper's figure 2c
// draws it:
//
//   rank 0  F0 F1 F2 F3             .  .  .  .  B3 B2 B1 B0
//   rank 1     F0 F1 F2 F3       .  B3 B2 B1 B0
//   rank 2        F0 F1 F2 F3 B3 B2 B1 B0
//
// backward=fifo is the order of PyTorch's ScheduleGPipe. Same makespan, (m + p - 1)(F + B), and
// same peak.
//
// recompute=all, needed (section 2.3): a stage keeps its inputs only, and runs the forward again
// before the backward; `needed` does not for the last micro-batch of lifo, whose activations are
// still there. Makespan (m + p - 1)(F + B) + m F: the first one hides in the bubble.
#include "harness/plan/chain_partition.h"
#include "harness/plan/recompute_option.h"

namespace sluice {

static Schedule gpipe_schedule(const ScheduleProblem& problem, const Options& options) {
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(problem.ranks)),
                    .microbatches = problem.microbatches};
  const bool lifo = options.text("backward") == "lifo";
  const int m = problem.microbatches;
  for (std::size_t s = 0; s < problem.graph.size(); ++s) {
    auto& ops = schedule.ranks[problem.placement.stages[s].front().index()];
    for (int i = 0; i < m; ++i) ops.push_back(forward_op(static_cast<int>(s), i));
    for (int i = 0; i < m; ++i) ops.push_back(backward_op(static_cast<int>(s), lifo ? m - 1 - i : i));
  }
  return schedule;
}

static Theory gpipe_theory(const ScheduleProblem& problem, const Options& options) {
  const auto p = static_cast<std::size_t>(problem.ranks);
  const double m = problem.microbatches;
  std::optional<double> ratio = (problem.ranks - 1) / (m + problem.ranks - 1);
  if (options.text("recompute") == "all") ratio = recomputed_bubble_ratio(problem.ranks, problem.microbatches);
  if (options.text("recompute") == "needed") ratio.reset();
  return {.bubble_ratio = ratio,
          .in_flight = std::vector<int>(p, problem.microbatches),
          .weight_versions = std::vector<int>(p, 1),
          .staleness = std::vector<int>(p, 0)};
}

extern const System gpipe;
const System gpipe = {
    .name = "gpipe",
    .aliases = {},
    .title = "GPipe",
    .citation =
        "Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline "
        "Parallelism, "
        "NeurIPS 2019 (arXiv 1811.06965)",
    .synchronous = true,
    .options =
        {{"backward", "lifo", "order of the backwards: lifo (the paper's figure) or fifo (PyTorch)", {"lifo", "fifo"}},
         recompute_option()},
    .plan = [](const Problem& p, const Options&) { return balanced_chain(p, p.devices, "gpipe"); },
    .schedule = gpipe_schedule,
    .weights = [](const ScheduleProblem&, const Options& options) { return flush_with_recompute(options); },
    .theory = gpipe_theory,
};

}  // namespace sluice
