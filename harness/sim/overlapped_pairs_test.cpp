// What overlapped pairs take on the virtual clock. Stages of F 1, I 1 and W 1 seconds unless a test says otherwise.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "harness/program/check_program.h"
#include "harness/program/check_schedule.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

Costs with_shares(Costs costs, const std::vector<double>& shares) {
  for (std::size_t s = 0; s < shares.size(); ++s) costs.stages[s].pair_share = shares[s];
  return costs;
}

std::vector<DeviceId> devices(std::size_t ranks) {
  std::vector<DeviceId> all;
  for (std::size_t r = 0; r < ranks; ++r) all.emplace_back(r);
  return all;
}

Simulation run(const Program& program, const Costs& costs) {
  const std::size_t ranks = program.ranks.size();
  return simulate(program, costs, latency_cluster(static_cast<int>(ranks), Seconds(0)), devices(ranks));
}

Simulation run(const std::string& schedule, const Placement& placement, const Costs& costs,
               const WeightRule& rule = {}) {
  const int stages = static_cast<int>(placement.stages.size());
  return run(checked(lower(parse_schedule(schedule), chain(stages), placement, rule)), costs);
}

// Rank 0 of 1: F0 1 s, the pair 0.75 x 3 s, B1 2 s.
TEST(OverlappedPairs, APairTakesItsShareOfBothOps) {
  const Placement one = one_stage_per_rank(1);
  const std::string pair = "rank 0: 0F0 (0F1;0B0) 0B1\n";
  EXPECT_DOUBLE_EQ(run(pair, one, uniform_costs(1, 1, 1, 1)).bubble.makespan, 6);
  EXPECT_DOUBLE_EQ(run(pair, one, with_shares(uniform_costs(1, 1, 1, 1), {0.75})).bubble.makespan, 5.25);
  EXPECT_DOUBLE_EQ(
      run("rank 0: 0F0 0F1 0B0 0B1\n", one, with_shares(uniform_costs(1, 1, 1, 1), {0.75})).bubble.makespan, 6);
}

// Two pairs of 0.5 x 2 s; the other five ops take 1 s each.
TEST(OverlappedPairs, APartOfABackwardTakesItsShareToo) {
  EXPECT_DOUBLE_EQ(run("rank 0: 0F0 0F1 (0F2;0I0) (0I1;0W0) 0W1 0I2 0W2\n", one_stage_per_rank(1),
                       with_shares(uniform_costs(1, 1, 1, 1), {0.5}))
                       .bubble.makespan,
                   5 + 2);
}

// Both stages on one rank: 0F0 1F0 2 s, then F of stage 0 (share 0.5) with B of stage 1 (share 0.75): 0.5 + 1.5 s.
TEST(OverlappedPairs, OpsOfTwoStagesTakeTheSharesOfTheirStages) {
  const Placement both{.stages = {{Rank(0)}, {Rank(0)}}};
  EXPECT_DOUBLE_EQ(
      run("rank 0: 0F0 1F0 (0F1;1B0) 0B0 1F1 1B1 0B1\n", both, with_shares(uniform_costs(2, 1, 1, 1), {0.5, 0.75}))
          .bubble.makespan,
      2 + 2 + 2 + 1 + 2 + 2);
}

// Rank 1 runs F0 1-2, F1 2-3, B0 3-5, B1 5-7. Rank 0's pair of F2 and B0 begins at 5 with B0's gradient and ends at
// 7.25, and only then F2's output leaves.
TEST(OverlappedPairs, OutputsOfBothLeaveAtThePairsEnd) {
  const Simulation s = run("rank 0: 0F0 0F1 (0F2;0B0) 0B1 0B2\nrank 1: 1F0 1F1 1B0 1B1 1F2 1B2\n",
                           one_stage_per_rank(2), with_shares(uniform_costs(2, 1, 1, 1), {0.75, 0.75}));
  const std::vector<TraceEvent>& rank1 = s.trace.ranks[1];
  const auto f2 = std::ranges::find_if(rank1, [](const TraceEvent& e) { return to_text(e.instruction) == "1F2"; });
  ASSERT_NE(f2, rank1.end());
  EXPECT_DOUBLE_EQ(f2->start, 7.25);
  EXPECT_DOUBLE_EQ(s.bubble.idle[0], s.bubble.makespan - (1 + 1 + 2.25 + 2 + 2));
}

// A recomputation stands before the pair and takes a whole forward: F0 1, R0 1, (F1;B0) 0.5 x 3, R1 1, B1 2.
TEST(OverlappedPairs, ARecomputationIsNoPartOfThePair) {
  EXPECT_DOUBLE_EQ(
      run("rank 0: 0F0 (0F1;0B0) 0B1\n", one_stage_per_rank(1), with_shares(uniform_costs(1, 1, 1, 1), {0.5}),
          {.recompute = WeightRule::Recompute::forward_weights})
          .bubble.makespan,
      6.5);
}

// Micro-batches of 3 and 1 samples: F0 3, the pair 0.5 x (F1 1 + B0 6), B1 2.
TEST(OverlappedPairs, MicrobatchesOfDifferentSizesTakeTheirOwnSeconds) {
  Program program =
      checked(lower(parse_schedule("rank 0: 0F0 (0F1;0B0) 0B1\n"), chain(1), one_stage_per_rank(1), WeightRule{}));
  program.sizes = MicrobatchSizes({3, 1});
  const auto of = [](double samples) { return with_shares(uniform_costs(1, samples, samples, samples), {0.5}); };
  Costs costs = of(3);
  costs.of_size = {of(1), of(3)};
  EXPECT_DOUBLE_EQ(run(program, costs).bubble.makespan, 3 + 3.5 + 2);
}

// Steps one after the other, by the definition: a step begins when its rank is free and what its ops need is there.
double makespan_by_definition(const ExampleProblem& p, const Costs& costs) {
  std::map<std::pair<OpKind, std::pair<StageId, Micro>>, double> ends;
  const auto end_of = [&](std::initializer_list<OpKind> kinds, StageId stage, Micro micro) {
    for (const OpKind kind : kinds)
      if (const auto found = ends.find({kind, {stage, micro}}); found != ends.end()) return found->second;
    return -1.0;
  };
  const auto begin_of = [&](const Op& op) {  // negative: not yet
    const bool forward = op.kind == OpKind::forward;
    const auto backward = {OpKind::backward, OpKind::input_gradient};
    if (op.kind == OpKind::weight_gradient) return end_of({OpKind::input_gradient}, op.stage, op.micro);
    double begin = forward ? 0 : end_of({OpKind::forward}, op.stage, op.micro);
    for (const StageId other :
         forward ? p.graph.predecessors[op.stage.index()] : p.graph.successors[op.stage.index()]) {
      const double end = forward ? end_of({OpKind::forward}, other, op.micro) : end_of(backward, other, op.micro);
      begin = end < 0 || begin < 0 ? -1 : std::max(begin, end);
    }
    return begin;
  };
  const auto seconds_of = [&](const Op& op) {
    const StageCost& cost = costs.stages[op.stage.index()];
    switch (op.kind) {
      case OpKind::forward:
        return cost.forward.value;
      case OpKind::input_gradient:
        return cost.input_gradient.value;
      case OpKind::weight_gradient:
        return cost.weight_gradient.value;
      case OpKind::backward:
        break;
    }
    return cost.input_gradient.value + cost.weight_gradient.value;
  };
  std::vector<double> free(p.schedule.ranks.size(), 0);
  std::vector<std::size_t> next(p.schedule.ranks.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < next.size(); ++r) {
      const std::vector<Op>& ops = p.schedule.ranks[r];
      if (next[r] == ops.size()) continue;
      const std::size_t last = next[r] + (ops[next[r]].overlapped ? 1 : 0);
      double begin = free[r], seconds = 0;
      for (std::size_t k = next[r]; k <= last; ++k) {
        const double ready = begin_of(ops[k]);
        begin = ready < 0 || begin < 0 ? -1 : std::max(begin, ready);
        seconds += seconds_of(ops[k]) * (last > next[r] ? costs.stages[ops[k].stage.index()].pair_share : 1);
      }
      if (begin < 0) continue;
      for (; next[r] <= last; ++next[r])
        ends[{ops[next[r]].kind, {ops[next[r]].stage, ops[next[r]].micro}}] = begin + seconds;
      free[r] = begin + seconds;
      moved = true;
    }
  }
  return *std::ranges::max_element(free);
}

TEST(OverlappedPairs, RandomOrdersTakeWhatTheDefinitionSays) {
  int with_pairs = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    ExampleProblem p = random_problem(seed, false);
    std::mt19937 random(seed);
    for (std::vector<Op>& ops : p.schedule.ranks)
      for (std::size_t k = 0; k + 1 < ops.size(); ++k) {
        if (random() % 2 != 0 || (k > 0 && ops[k - 1].overlapped)) continue;
        ops[k].overlapped = true;
        if (!check(p.schedule, p.graph, p.placement).empty()) ops[k].overlapped = false;  // one needs the other
      }
    if (!has_pairs(p.schedule)) continue;
    ++with_pairs;
    Costs costs = uniform_costs(p.graph.stages(), 1, 1, 1);
    for (StageCost& cost : costs.stages) {
      for (Seconds* s : {&cost.forward, &cost.input_gradient, &cost.weight_gradient})
        *s = Seconds(1 + static_cast<double>(random() % 4));
      cost.pair_share = 0.5 + static_cast<double>(random() % 5) / 8;
    }
    const Program program = checked(lower(p.schedule, p.graph, p.placement, WeightRule{}));
    EXPECT_NEAR(run(program, costs).end, makespan_by_definition(p, costs), 1e-9) << to_text(p.schedule);
  }
  EXPECT_GT(with_pairs, 200);
}

}  // namespace
}  // namespace sluice
