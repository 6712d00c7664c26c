// GPipe (Huang et al., NeurIPS 2019, arXiv 1811.06965), section 2.3: all forwards, then all backwards, then one
// synchronous update. From memory of the paper. p = 3, m = 4, backward=lifo (figure 2c):
//
//   rank 0  F0 F1 F2 F3             .  .  .  .  B3 B2 B1 B0
//   rank 1     F0 F1 F2 F3       .  B3 B2 B1 B0
//   rank 2        F0 F1 F2 F3 B3 B2 B1 B0
//
// backward=fifo is the order of PyTorch's ScheduleGPipe. Same makespan, (m + p - 1)(F + B), and same peak, m.
// recompute=all, needed (section 2.3): a stage keeps its inputs only, and runs the forward again before the backward;
// `needed` does not for the last micro-batch of lifo, whose activations are still there. Makespan
// (m + p - 1)(F + B) + m F: the first recomputation hides in the bubble (derived here).
#include "harness/pipeline/choice_option.h"
#include "harness/pipeline/orders.h"
#include "harness/plan/recompute_option.h"

namespace sluice {

static const ChoiceOption<BackwardOrder> backward_option(
    "backward", "order of the backwards: lifo (the paper's figure, as remembered) or fifo (PyTorch)",
    {{"lifo", BackwardOrder::lifo}, {"fifo", BackwardOrder::fifo}});

static Theory gpipe_theory(const ScheduleProblem& problem, const Options& options) {
  Theory theory = flush_theory(problem.ranks);
  theory.bubble_ratio = fill_drain_bubble(problem.ranks, problem.microbatches, recomputation(options));
  theory.in_flight.assign(problem.ranks, problem.microbatches);
  return theory;
}

extern const System gpipe = {
    .name = "gpipe",
    .title = "GPipe",
    .citation =
        "Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism, "
        "NeurIPS 2019 (arXiv 1811.06965)",
    .written_from = {WrittenFrom::memory,
                     {{"backward=fifo", WrittenFrom::code},
                      {"makespan of recompute=needed", WrittenFrom::ours},
                      {"makespan of recompute=all", WrittenFrom::ours}},
                     "The makespan with recomputation is derived here."},
    .options = {training_only(backward_option.spec()), recompute_option()},
    .schedule = [](const ScheduleProblem& problem,
                   const Options& options) { return orders::fill_drain(problem, backward_option(options)); },
    .op_rule =
        [](const ScheduleProblem& problem, const Options& options) {
          return orders::fill_drain_rule(problem.microbatches, backward_option(options));
        },
    .weights = flush_with_recompute,
    .theory = gpipe_theory,
};

}  // namespace sluice
