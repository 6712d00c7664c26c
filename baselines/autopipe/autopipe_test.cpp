// AutoPipe's slicer on chains of equal stages: a whole micro-batch has two samples.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/base/expect_error.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/check_program.h"
#include "harness/program/lowering.h"
#include "harness/program/schedule_picture.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {

extern const System autopipe;

namespace {

struct Sliced {
  ScheduleProblem problem;
  Schedule schedule;
  Simulation simulation;
  // Seconds until the last rank begins.
  double start_up() const { return simulation.trace.ranks.back().front().start; }
};

// `whole` micro-batches, the first `sliced` of them in halves; of a sample F takes `forward` and I and W half of
// `backward` each.
Sliced run(int ranks, int whole, int sliced, double forward, double backward) {
  const MicrobatchSizes sizes(first_halved(whole, 2, sliced));
  const Options options = resolve_options(autopipe.options, {{"sliced", std::to_string(sliced)}}, "test");
  const StageCost sample{Seconds(forward), Seconds(backward / 2), Seconds(backward / 2), Seconds(0), Bytes(0)};
  const Cluster cluster = latency_cluster(ranks, Seconds(0));
  UniformChain chain = uniform_chain(autopipe, options, cluster, ranks, whole + sliced, sample, Seconds(0), sizes);
  Sliced result{std::move(chain.problem), {}, {}};
  result.schedule = autopipe.schedule(result.problem, options);
  Program program = checked(lower(result.schedule, result.problem.graph, result.problem.placement, WeightRule{}));
  program.sizes = sizes;
  const auto costs_of = [&](std::int64_t samples) {
    return Costs{std::vector<StageCost>(static_cast<std::size_t>(ranks), of_samples(sample, samples)), {}};
  };
  Costs costs = costs_of(2);
  for (const std::int64_t size : sizes.distinct()) costs.of_size.push_back(costs_of(size));
  result.simulation = simulate(program, costs, cluster, chain.devices);
  return result;
}

// How many micro-batches to slice, of F and B of a whole one.
int enough(int ranks, double forward, double backward) {
  return static_cast<int>(std::ceil((ranks - 1) * forward / (2 * backward) - 1e-9));
}

// 4 ranks, 4 micro-batches of F 2 and B 4. Without slicing the last rank computes from 6 to 30, and the last B comes
// back at 30 + 3 * 4. With the first one in halves it computes from 3 to 27.
TEST(AutoPipeSlicer, FillsThePipeInHalfTheTime) {
  const Sliced whole = run(4, 4, 0, 1, 2), sliced = run(4, 4, 1, 1, 2);
  EXPECT_DOUBLE_EQ(whole.start_up(), 6);
  EXPECT_DOUBLE_EQ(whole.simulation.bubble.makespan, 42);
  EXPECT_DOUBLE_EQ(sliced.start_up(), 3);
  EXPECT_DOUBLE_EQ(sliced.simulation.bubble.makespan, 39);
}

TEST(AutoPipeSlicer, HalvesFollowEachOther) {
  const Sliced sliced = run(3, 3, 1, 1, 2);
  EXPECT_EQ(to_text(sliced.schedule),
            "rank 0: 0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3\n"
            "rank 1: 1F0 1F1 1F2 1B0 1B1 1F3 1B2 1B3\n"
            "rank 2: 2F0 2F1 2B0 2B1 2F2 2B2 2F3 2B3\n");
  EXPECT_EQ("\n" + draw_schedule(sliced.simulation.trace), R"(
rank 0  F0F1F2--F3--....B0--B1--............B2------....B3------
rank 1  ..F0F1..F2--B0--B1--F3--....B2------....B3------........
rank 2  ....F0F1B0--B1--F2--B2------F3--B3------................
)");
}

// The least number that is enough is (p - 1) F / (2 B), rounded up: the makespan is then m (F + B) + (p - 1)(F / 2 +
// B), that is half the start-up saved, and with one sliced micro-batch less it is longer.
TEST(AutoPipeSlicer, SlicesNoMoreMicroBatchesThanItMust) {
  for (int p = 2; p <= 9; ++p)
    for (const auto& [f, b] : {std::pair{1.0, 0.5}, {1.0, 1.0}, {1.0, 2.0}, {1.0, 3.0}, {2.0, 3.0}}) {
      const int n = enough(p, f, b), m = n + 5;
      SCOPED_TRACE(testing::Message() << p << " ranks, F " << f << ", B " << b);
      const double saved = m * (f + b) + (p - 1) * (f / 2 + b);
      const Sliced sliced = run(p, m, n, f / 2, b / 2);
      EXPECT_NEAR(sliced.start_up(), (p - 1) * f / 2, 1e-9);
      EXPECT_NEAR(sliced.simulation.bubble.makespan, saved, 1e-9);
      EXPECT_GT(run(p, m, n - 1, f / 2, b / 2).simulation.bubble.makespan, saved + 1e-9);
      EXPECT_NEAR(run(p, m, n + 1, f / 2, b / 2).simulation.bubble.makespan, saved, 1e-9);
    }
}

TEST(AutoPipeSlicer, HoldsAsManySamplesAsOneFOneB) {
  const Sliced sliced = run(4, 8, 3, 1, 2);
  for (std::size_t r = 0; r < 4; ++r) {
    std::int64_t held = 0, peak = 0;
    for (const Op& op : sliced.schedule.ranks[r]) {
      held += (op.kind == OpKind::forward ? 1 : -1) * sliced.problem.sizes.of(op.micro);
      peak = std::max(peak, held);
    }
    EXPECT_EQ(peak, 2 * (4 - static_cast<std::int64_t>(r)));
  }
  const Options options = resolve_options(autopipe.options, {{"sliced", "3"}}, "test");
  EXPECT_EQ(autopipe.theory(sliced.problem, options).in_flight, (std::vector<int>{7, 6, 4, 2}));
}

TEST(AutoPipeSlicer, RejectsMoreHalvesThanThereAreMicroBatches) {
  const Options options = resolve_options(autopipe.options, {{"sliced", "3"}}, "test");
  const UniformChain chain = uniform_chain(autopipe, options, latency_cluster(2, Seconds(0)), 2, 5, {});
  EXPECT_EQ(error_of([&] { autopipe.schedule(chain.problem, options); }),
            "autopipe: sliced=3, and 5 micro-batches are not twice as many; slice fewer, or count each half as a "
            "micro-batch");
}

}  // namespace
}  // namespace sluice
