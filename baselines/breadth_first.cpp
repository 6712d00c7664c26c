// Breadth-first pipeline parallelism (Lamy-Poirier, MLSys 2023, arXiv 2211.05953), section 4: v stages a rank, stage
// c p + r on rank r; all micro-batches through the rank's first stage, then all through its second, and so on,
// backwards the same from the last. p = 2, m = 4, v = 2, B = 2 F; small letters are the second stage of a rank:
//
//   rank 0  F0F1F2F3f0f1f2f3......b0--b1--b2--b3--B0--B1--B2--B3--
//   rank 1  ..F0F1F2F3f0f1f2f3b0--b1--b2--b3--B0--B1--B2--B3--....
//
// Makespan (m v + p - 1)(F + B) of a stage for m >= p, as interleaved 1F1B, with all m v activations held. In return a
// stage's weights are gathered twice an update and its gradients scattered once, whatever m is, and messages hide
// behind the next micro-batch where m > p. With m < p every stage waits for the first micro-batch to come round the
// ring.
//
// backward=fifo is the author's order (Fast-LLM), backward=lifo that of PyTorch's ScheduleLoopedBFS.
#include <algorithm>

#include "harness/pipeline/choice_option.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/chunks_option.h"
#include "harness/plan/recompute_option.h"

namespace sluice {

static const ChoiceOption<BackwardOrder> backward_option(
    "backward", "order of a stage's backwards: fifo (the author's) or lifo (PyTorch)",
    {{"fifo", BackwardOrder::fifo}, {"lifo", BackwardOrder::lifo}});

static Theory breadth_first_theory(const ScheduleProblem& problem, const Options& options) {
  const int p = problem.ranks, v = problem.chunks(), m = problem.microbatches;
  Theory theory = flush_theory(p);
  theory.in_flight.assign(p, m * v);
  // In F + B of a stage. Below m = p, every round but the last takes the p steps of the ring.
  const double makespan = std::max(m, p) * (v - 1) + m + p - 1;
  if (recomputation(options) == Recomputation::no)
    theory.bubble_ratio = 1 - m * v / makespan;
  else if (m >= p)
    theory.bubble_ratio = fill_drain_bubble(p, m * v, recomputation(options));
  if (m < p) theory.note = "fewer micro-batches than ranks: every stage waits for the ring";
  return theory;
}

extern const System breadth_first = {
    .name = "breadth_first",
    .aliases = {"bfpp"},
    .title = "Breadth-first",
    .citation = "Lamy-Poirier, Breadth-First Pipeline Parallelism, MLSys 2023 (arXiv 2211.05953)",
    .written_from = {WrittenFrom::code,
                     {{"bubble formula", WrittenFrom::memory}, {"gathers and reductions", WrittenFrom::ours}},
                     "When an update gathers weights and reduces gradients is derived here."},
    .options = {chunks_option(), training_only(backward_option.spec()), recompute_option()},
    .chunks = given_chunks,
    .schedule = [](const ScheduleProblem& problem,
                   const Options& options) { return orders::fill_drain(problem, backward_option(options)); },
    .weights = flush_with_recompute,
    .theory = breadth_first_theory,
    .sharding =
        [](const ScheduleProblem&, const Options&) {
          return Sharding{.gather = Sharding::Gather::on_visit, .reduce = Sharding::Reduce::accumulated};
        },
};

}  // namespace sluice
