// V-Half, V-Min and V-ZB against the orders of the authors' released generator, their closed forms, and the search
// within a memory limit against the released one's results (harness/tests/data/controllable_memory.json).
#include <gtest/gtest.h>
#include <sluice_build.h>

#include "baselines/controllable_memory/memory_search.h"
#include "baselines/controllable_memory/v_order.h"
#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/pipeline/system.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/check_schedule.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

struct OpTimes {
  double f, i, w, latency;
};

struct Made {
  ScheduleProblem problem;
  Schedule schedule;
};

// A chain of equal stages, as the system places it.
ScheduleProblem problem_of(int ranks, int microbatches, const OpTimes& t) {
  const System& system = find_system("controllable_memory", "test");
  const StageCost cost{Seconds(t.f), Seconds(t.i), Seconds(t.w), Seconds(0), Bytes(0)};
  ScheduleProblem problem = uniform_chain(system, resolve_options(system.options, {}, "test"),
                                          latency_cluster(ranks, Seconds(t.latency)), ranks, microbatches, cost)
                                .problem;
  problem.latency = Seconds(t.latency);
  return problem;
}

Made make(const std::string& variant, int ranks, int microbatches, const OpTimes& t = {1, 1, 1, 0}, int memory = 0) {
  const System& system = find_system("controllable_memory", "test");
  Made made{problem_of(ranks, microbatches, t), {}};
  made.schedule = system.schedule(
      made.problem,
      resolve_options(system.options, {{"variant", variant}, {"memory", std::to_string(memory)}}, "test"));
  return made;
}

Simulation simulated(const Made& made, const OpTimes& t) {
  const Program program = lower(made.schedule, made.problem.graph, made.problem.placement, WeightRule{});
  std::vector<StageCost> costs(made.problem.stages(), {Seconds(t.f), Seconds(t.i), Seconds(t.w), Seconds(0), Bytes(0)});
  return simulate(program, {costs, {}}, latency_cluster(made.problem.ranks, Seconds(t.latency)),
                  identity_devices(made.problem.ranks), {.trace = false});
}

// The longest own span of a rank, less its work.
double span_idle(const Made& made, const OpTimes& t) {
  return simulated(made, t).bubble.max_span - 2 * made.problem.microbatches * (t.f + t.i + t.w);
}

int max_until_weight_gradient(const Schedule& schedule) {
  int most = 0;
  for (const RankPeak& peak : peaks(schedule)) most = std::max(most, peak.until_weight_gradient);
  return most;
}

OpTimes op_times(const Json& numbers) {
  const auto times = numbers.get<std::vector<double>>();
  return {times[0], times[1], times[2], times[3]};
}

Json published() { return parse_json_file(SLUICE_SOURCE_DIR "/harness/tests/data/controllable_memory.json"); }

TEST(ControllableMemoryTest, EveryOrderEqualsThePublishedOneOpByOp) {
  int compared = 0;
  const Json data = published();
  for (const auto& expected : data["orders"]) {
    std::string name = expected["system"].get<std::string>();
    const int p = expected["ranks"].get<int>(), m = expected["microbatches"].get<int>();
    SCOPED_TRACE(name + " ranks=" + std::to_string(p) + " microbatches=" + std::to_string(m));
    const std::size_t suffix = name.find("_repeated");
    Made made;
    if (suffix != std::string::npos) {
      name.resize(suffix);
      const BuildingBlock block = name == "v_half" ? v_half_block(p) : name == "v_min" ? v_min_block(p) : v_zb_block(p);
      made.problem = problem_of(p, m, {1, 1, 1, 0});
      made.schedule = empty_schedule(made.problem);
      made.schedule.ranks = VOrder(block, m).ops();
    } else {
      made = make(name.substr(2), p, m);
    }
    for (int r = 0; r < p; ++r) {
      std::string line;
      for (const Op& op : made.schedule.ranks[r]) line += (line.empty() ? "" : " ") + to_text(op);
      EXPECT_EQ(line, expected["order"].at(r).get<std::string>());
      EXPECT_EQ(peaks(made.schedule)[r].until_weight_gradient, expected["peak_until_W"].at(r).get<int>());
    }
    for (const auto& e : expected["span_idle"]) EXPECT_NEAR(span_idle(made, op_times(e)), e[4].get<double>(), 1e-9);
    ++compared;
  }
  EXPECT_EQ(compared, 84);
}

TEST(ControllableMemoryTest, PeaksAndBubblesFollowTheirClosedForms) {
  const OpTimes unit{1, 1, 1, 0};
  for (int p = 2; p <= 12; ++p)
    for (const int m : {2 * p, 3 * p}) {
      SCOPED_TRACE("ranks=" + std::to_string(p) + " microbatches=" + std::to_string(m));
      const Made half = make("half", p, m), min = make("min", p, m), zb = make("zb", p, m);
      EXPECT_EQ(max_until_weight_gradient(half.schedule), 2 * ((p + 2) / 2));
      EXPECT_EQ(max_until_weight_gradient(min.schedule), 2 * ((p + 4) / 3));
      EXPECT_EQ(max_until_weight_gradient(zb.schedule), 2 * p);
      EXPECT_DOUBLE_EQ(span_idle(half, unit), p == 2 ? 1 : p % 2 == 0 ? 3 * p - 7 : 3 * p - 4);
      EXPECT_DOUBLE_EQ(span_idle(min, unit), p % 3 == 0 ? 4 * p - 7 : 4 * p - 5);
      EXPECT_DOUBLE_EQ(span_idle(zb, unit), 0);
    }
}

TEST(ControllableMemoryTest, EveryBlockOfTwoPartsThatRepeatsGivesValidOrders) {
  int blocks = 0;
  const auto expect_valid = [&](const BuildingBlock& block, int p, int m) {
    const ScheduleProblem problem = problem_of(p, m, {1, 1, 1, 0});
    VOrder order(block, m);
    Schedule schedule = empty_schedule(problem);
    schedule.ranks = order.ops();
    EXPECT_TRUE(check(schedule, problem.graph, problem.placement).empty());
    const int before = order.peak();
    EXPECT_EQ(max_until_weight_gradient(schedule), before);
    order.improve();
    schedule.ranks = order.ops();
    EXPECT_TRUE(check(schedule, problem.graph, problem.placement).empty());
    EXPECT_LE(max_until_weight_gradient(schedule), before);
  };
  for (int p = 1; p <= 4; ++p)
    for (int first = 1; first <= 5; ++first)
      for (int second = 1; second <= first; ++second)
        for (int changes = 0; changes < p; ++changes)
          for (int a = 1; a <= 6; ++a)
            for (int b = 1; b <= 6; ++b)
              for (int c = 1; c <= 6; ++c) {
                const BuildingBlock block = two_part_block(p, first, second, changes, {a, b, c});
                if (block.empty()) continue;
                ++blocks;
                for (const int m : {1, p, 2 * p + 1}) expect_valid(block, p, m);
              }
  EXPECT_GT(blocks, 1000);
}

TEST(ControllableMemorySearchTest, KeepsTheLimitAndIsNoWorseThanThePublishedOwnSearch) {
  const Json data = published();
  int as_good_as_released = 0;
  for (const auto& expected : data["search"]) {
    const int p = expected["ranks"].get<int>(), m = expected["microbatches"].get<int>();
    const int memory = expected["memory"].get<int>();
    const OpTimes t = op_times(expected["costs"]);
    SCOPED_TRACE(expected.dump());
    const Made made = make("auto", p, m, t, memory);
    EXPECT_TRUE(check(made.schedule, made.problem.graph, made.problem.placement).empty());
    EXPECT_LE(max_until_weight_gradient(made.schedule), memory);
    const double idle = span_idle(made, t);
    EXPECT_LE(idle, expected["own"].get<double>() + 1e-9) << "released: " << expected["released"].dump();
    as_good_as_released += idle <= expected["released"].get<double>() + 1e-9;
  }
  EXPECT_GE(as_good_as_released, 55);  // of 103
}

TEST(ControllableMemorySearchTest, TakesStagesWhoseOpsTakeNoTime) {
  for (int p = 1; p <= 4; ++p)
    for (const int m : {1, 2, 4, 8, 12})
      for (int idle = 0; idle < 2 * p; ++idle) {
        ScheduleProblem problem = problem_of(p, m, {1, 1, 1, 0});
        problem.costs.assign(problem.stages(), {Seconds(1), Seconds(1), Seconds(0), Seconds(0), Bytes(0)});
        problem.costs[idle] = {Seconds(0), Seconds(0), Seconds(0), Seconds(0), Bytes(0)};
        Schedule schedule = empty_schedule(problem);
        schedule.ranks = shortest_v_order(problem, 2 * p + 4);
        EXPECT_TRUE(check(schedule, problem.graph, problem.placement).empty())
            << p << " ranks, " << m << " micro-batches, stage " << idle;
      }
}

TEST(ControllableMemorySearchTest, TellsHowMuchMemoryItNeeds) {
  try {
    make("auto", 8, 16, {1, 1, 1, 0}, 6);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(),
                 "controllable_memory: memory=6 activations of one stage on a rank; give at least 8, which V-Min "
                 "holds");
  }
}

}  // namespace
}  // namespace sluice
