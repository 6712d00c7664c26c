// ZeroPP (Tang et al., arXiv 2402.03791): pipeline parallelism over fully sharded parameters
// without tensor parallelism. v stages a rank (stage c p + r on rank r). The micro-batches are cut
// into units of U; inside a unit every rank runs all of the unit through its first stage, then its
// second, ..., so that a stage's weights are gathered once per visit; in the last stage forwards
// and input gradients alternate, and weight gradients W are put off to where the rank would idle.
// The full text of the paper was not available: the order is that of its first author's public
// implementation. p = 2, m = U = 3, v = 2; small letters are the second stage of a rank:
//
//   rank 0  F0F1F2f0f1f2i0w0i1w1i2w2I0W0I1W1I2W2..
//   rank 1  ..F0F1F2f0i0f1i1f2i2w2I0W0I1W1I2W2w1w0
//
// Units follow one another without a barrier. A rank holds (v - 1) U + min(U, 2p - 1) activations
// whatever m is; U = p costs the bubble of ZB-H1 per unit, U = 2p - 1 that of ZB-H2 (none, at equal
// times), divided by v; beyond that only the number of units falls. A unit takes 2v - 1 gathers,
// less the one that the unit before leaves behind.
//
// deferral=tight: from input gradient 2r on, one W follows each. Rank r then has 2r of them left,
//   just what fills its wait for the next stage.
// deferral=released: from 2r + 1 on, the test of the released code, which puts off one W too many:
//   U = 2p - 1 then has a bubble of one W.
// deferral=none: every W at once.
// reduce=unit: gradients are scattered once per unit and stage (the paper's communication volume);
//   reduce=microbatch: after every W (the released code).
#include <algorithm>
#include <vector>

#include "harness/plan/chain_partition.h"

namespace sluice {

namespace {

int unit_of(const ScheduleProblem& problem, const Options& options) {
  const int given = options.integer("unit");
  return std::min(given == 0 ? problem.ranks : given, problem.microbatches);
}

// Forwards of a rank before its first input gradient, in a unit of n micro-batches.
int warm_up(int p, int v, int n, int rank) { return std::min(2 * (p - 1 - rank) + (v - 1) * n, n * v); }

Schedule zeropp_schedule(const ScheduleProblem& problem, const Options& options) {
  Schedule schedule = empty_schedule(problem.ranks, problem.microbatches);
  const int p = problem.ranks, v = problem.chunks(), unit = unit_of(problem, options);
  const std::string& deferral = options.text("deferral");
  for (int r = 0; r < p; ++r) {
    auto& ops = schedule.ranks[static_cast<std::size_t>(r)];
    ops.reserve(3 * static_cast<std::size_t>(v * problem.microbatches));
    // Input gradient number `from` of a unit is the first that a W follows.
    const int from = deferral == "none" ? 0 : deferral == "tight" ? 2 * r : 2 * r + 1;
    std::vector<Op> waiting;  // W that are put off; the last in is the first out
    const auto run_weight_gradient = [&] {
      ops.push_back(waiting.back());
      waiting.pop_back();
    };
    for (int first = 0; first < problem.microbatches; first += unit) {
      const int n = std::min(unit, problem.microbatches - first);
      const auto forward = [&](int k) { ops.push_back(forward_op(k / n * p + r, first + k % n)); };
      const auto input_gradient = [&](int k) {
        ops.push_back(input_gradient_op((v - 1 - k / n) * p + r, first + k % n));
        waiting.push_back(weight_gradient_op((v - 1 - k / n) * p + r, first + k % n));
      };
      const int warm = warm_up(p, v, n, r);
      for (int k = 0; k < warm; ++k) forward(k);
      for (int k = 0; k < n * v - warm; ++k) {
        forward(warm + k);
        input_gradient(k);
        if (k >= n || k >= from) run_weight_gradient();
      }
      for (int k = n * v - warm; k < n * v; ++k) {
        input_gradient(k);
        run_weight_gradient();
      }
      while (!waiting.empty()) run_weight_gradient();
    }
  }
  return schedule;
}

// Bubble of a unit of n >= p micro-batches between others, at F = I = W, in ops of a stage.
int unit_bubble(int p, int n, const std::string& deferral) {
  if (deferral == "none") return 2 * (p - 1);
  const int bubble = p - 1 - (std::min(n, 2 * p - 1) - p);
  return deferral == "released" && n == 2 * p - 1 && p > 1 ? 1 : bubble;
}

Theory zeropp_theory(const ScheduleProblem& problem, const Options& options) {
  const auto ranks = static_cast<std::size_t>(problem.ranks);
  const int p = problem.ranks, v = problem.chunks(), m = problem.microbatches;
  const int unit = unit_of(problem, options);
  const std::string& deferral = options.text("deferral");
  Theory theory{.weight_versions = std::vector<int>(ranks, 1), .staleness = std::vector<int>(ranks, 0)};
  const int last = m - (m - 1) / unit * unit;  // micro-batches of the last unit
  if (unit >= p && last >= p) {
    const int units = (m + unit - 1) / unit;
    // The ranks of the last unit start and end p - 1 apart at least.
    const int idle =
        (units - 1) * unit_bubble(p, unit, deferral) + (deferral == "none" ? unit_bubble(p, last, deferral) : p - 1);
    theory.bubble_ratio = static_cast<double>(idle) / (3 * m * v + idle);
  } else {
    theory.note = "a unit of fewer micro-batches than ranks: its bubble is larger";
  }
  for (int r = 0; r < p; ++r) theory.in_flight.push_back(std::min(warm_up(p, v, unit, r) + 1, unit * v));
  return theory;
}

}  // namespace

extern const System zeropp;
const System zeropp = {
    .name = "zeropp",
    .aliases = {},
    .title = "ZeroPP",
    .citation =
        "Tang et al., ZeroPP: Unleashing Exceptional Parallelism Efficiency through "
        "Tensor-Parallelism-Free Methodology, 2024 (arXiv 2402.03791)",
    .synchronous = true,
    .options = {{"chunks", "2", "stages on every rank"},
                {"unit", "0", "micro-batches of a scheduling unit; 0: as many as ranks", {}, 0},
                {"deferral",
                 "tight",
                 "weight gradients put off: tight, released (the authors' code, one more) or none",
                 {"tight", "released", "none"}},
                {"reduce",
                 "unit",
                 "gradients are scattered once a unit (the paper) or a microbatch (their code)",
                 {"unit", "microbatch"}}},
    .plan =
        [](const Problem& p, const Options& options) {
          return chunked_chain(p, options.integer("chunks"), ChunkPlacement::loop, "zeropp");
        },
    .schedule = zeropp_schedule,
    .weights = [](const ScheduleProblem&, const Options&) { return WeightRule{}; },
    .theory = zeropp_theory,
    .chunks = [](const Options& options) { return options.integer("chunks"); },
    .sharding =
        [](const ScheduleProblem& problem, const Options& options) {
          return Sharding{.gather = Sharding::Gather::on_visit,
                          .reduce = options.text("reduce") == "unit" ? Sharding::Reduce::per_unit
                                                                     : Sharding::Reduce::per_microbatch,
                          .unit = unit_of(problem, options)};
        },
};

}  // namespace sluice
