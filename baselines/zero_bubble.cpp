// Zero bubble (Qi et al., ICLR 2024, arXiv 2401.10241): the backward is split into the input
// gradient I, on which the rank before waits, and the weight gradient W, which nobody waits for and
// which fills what would be bubble.
//
// variant=h1, h2 (section 2, figures 2 and 3): h(p - 1 - r) forwards, then F, I and, from I number
// h r on, one W in turn, the oldest first; h r W are left for the end. p = 3, m = 4, h1 and h2:
//
//   rank 0  F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3
//   rank 1     F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
//   rank 2        F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3
//
//   rank 0  F0 F1 F2 F3       I0 W0 I1 W1 I2 W2 I3 W3
//   rank 1     F0 F1 F2 I0 F3 I1    I2 W0 I3 W1 W2 W3
//   rank 2        F0 I0 F1 I1 F2 I2 F3 I3 W0 W1 W2 W3
//
// Bubble (p - 1)(F + I - h W) over a rank's own span. Activations waiting for I: p - r with h1, as
// 1F1B, and 2(p - r) - 1 with h2. The authors' code wants m >= 2p. The order stays valid with any
// m, but the bubble is this one from m = p (h1) and m = 2p - 1 (h2) on.
#include <algorithm>

#include "harness/plan/chain_partition.h"

namespace sluice {

static Schedule zero_bubble_schedule(const ScheduleProblem& problem, const Options& options) {
  Schedule schedule{.ranks = std::vector<std::vector<Op>>(static_cast<std::size_t>(problem.ranks)),
                    .microbatches = problem.microbatches};
  const int p = static_cast<int>(problem.graph.size()), m = problem.microbatches;
  const int h = options.text("variant") == "h1" ? 1 : 2;
  for (int s = 0; s < p; ++s) {
    auto& ops =
        schedule.ranks[problem.placement.stages[static_cast<std::size_t>(s)].front().index()];
    ops.reserve(3 * static_cast<std::size_t>(m));
    int forwards = 0, weight_gradients = 0;
    while (forwards < std::min(h * (p - 1 - s), m)) ops.push_back(forward_op(s, forwards++));
    for (int i = 0; i < m; ++i) {
      if (forwards < m) ops.push_back(forward_op(s, forwards++));
      ops.push_back(input_gradient_op(s, i));
      if (i >= h * s) ops.push_back(weight_gradient_op(s, weight_gradients++));
    }
    while (weight_gradients < m) ops.push_back(weight_gradient_op(s, weight_gradients++));
  }
  return schedule;
}

static Theory zero_bubble_theory(const ScheduleProblem& problem, const Options& options) {
  Theory theory;
  const int p = problem.ranks, m = problem.microbatches;
  const int h = options.text("variant") == "h1" ? 1 : 2;
  // At F = I = W: h1 has a bubble of p - 1; h2 none on any rank's own span, but the ranks start and
  // end p - 1 apart.
  if (m >= (h == 1 ? p : 2 * (p - 1)))
    theory.bubble_ratio = static_cast<double>(p - 1) / (3 * m + p - 1);
  for (int r = 0; r < p; ++r) {
    theory.in_flight.push_back(std::min(m, h * (p - 1 - r) + 1));
    theory.weight_versions.push_back(1);
    theory.staleness.push_back(0);
  }
  return theory;
}

extern const System zero_bubble;
const System zero_bubble = {
    .name = "zero_bubble",
    .aliases = {"zb"},
    .title = "Zero bubble",
    .citation = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024 (arXiv 2401.10241)",
    .synchronous = true,
    .options = {{"variant",
                 "h1",
                 "h1 (the memory of 1F1B) or h2 (twice that, no bubble on a rank's own span)",
                 {"h1", "h2"}}},
    .plan = [](const Problem& p,
               const Options&) { return balanced_chain(p, p.devices, "zero_bubble"); },
    .schedule = zero_bubble_schedule,
    .weights = [](const Options&) { return WeightRule{}; },
    .theory = zero_bubble_theory,
};

}  // namespace sluice
