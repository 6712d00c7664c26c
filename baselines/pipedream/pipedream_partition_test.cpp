#include "baselines/pipedream/pipedream_partition.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "harness/base/expect_error.h"
#include "harness/plan/chain_partition.h"
#include "harness/plan/plan_test_support.h"

namespace sluice {
namespace {

using Form = PipeDreamOptions::Form;

AntichainStates states_of(const CostGraph& costs) { return antichain_states(layer_groups(costs), 1000); }

// A chain of four layers, the last ones heavy in weights.
AntichainStates four_layers() { return states_of(chain_costs({4, 4, 2, 2}, {1, 1, 10, 40}, {8, 4, 2, 1})); }

std::string text_of(const std::vector<PipeDreamStage>& stages) {
  std::string text;
  for (const PipeDreamStage& s : stages) {
    int replicas = 1;
    for (const int m : s.machines) replicas *= m;
    text += "(" + std::to_string(s.first) + "," + std::to_string(s.last - 1) + "," + std::to_string(replicas) + ")";
  }
  return text;
}

TEST(PipeDreamPartitionTest, TheReleasedOptimizersForm) {  // PD-1a to PD-1c, PD-5
  const AntichainStates states = four_layers();
  PipeDreamOptions options{.form = Form::code, .levels = {{4, 10}}};
  PipeDreamResult result = pipedream_partition(states, options);
  EXPECT_DOUBLE_EQ(result.seconds, 4);
  EXPECT_EQ(text_of(result.stages), "(0,1,3)(2,3,1)");
  options.levels = {{3, 10}};
  result = pipedream_partition(states, options);
  EXPECT_DOUBLE_EQ(result.seconds, 4);
  EXPECT_EQ(text_of(result.stages), "(0,0,1)(1,1,1)(2,3,1)");
  options.levels = {{1, 10}};
  EXPECT_DOUBLE_EQ(pipedream_partition(states, options).seconds, 12);
  options = {.form = Form::code, .levels = {{4, 10}}, .max_replicas = 1};
  result = pipedream_partition(states, options);
  EXPECT_DOUBLE_EQ(result.seconds, 4);
  EXPECT_EQ(result.stages.size(), 4u);
}

TEST(PipeDreamPartitionTest, ThePapersForm) {  // PD-1d, PD-1e, PD-1c
  const AntichainStates states = four_layers();
  PipeDreamOptions options{.levels = {{4, 10}}};
  PipeDreamResult result = pipedream_partition(states, options);
  EXPECT_DOUBLE_EQ(result.seconds, 10.0 / 3);
  EXPECT_EQ(text_of(result.stages), "(0,2,3)(3,3,1)");
  options.levels = {{3, 10}};
  result = pipedream_partition(states, options);
  EXPECT_DOUBLE_EQ(result.seconds, 4);
  EXPECT_EQ(text_of(result.stages), "(0,1,2)(2,3,1)");
  options.levels = {{1, 10}};
  EXPECT_DOUBLE_EQ(pipedream_partition(states, options).seconds, 12);
}

TEST(PipeDreamPartitionTest, TwoLevels) {  // PD-4a, PD-4b
  for (const Form form : {Form::code, Form::paper}) {
    const PipeDreamResult result = pipedream_partition(four_layers(), {.form = form, .levels = {{2, 20}, {2, 5}}});
    EXPECT_DOUBLE_EQ(result.seconds, 4);
    ASSERT_EQ(result.by_level.size(), 2u);
    EXPECT_EQ(text_of(result.by_level[1]), "(0,0,1)(1,3,1)");
    int devices = 0;
    for (const PipeDreamStage& s : result.stages) devices += s.machines[0] * s.machines[1];
    EXPECT_EQ(devices, 4);
  }
  // What the lower level takes for its share, 2 devices at 20 bytes/s.
  for (const auto& [layers, code, paper] :
       {std::tuple(1, 2.05, 2.0), std::tuple(2, 4.0, 4.0), std::tuple(3, 5.6, 5.0), std::tuple(4, 8.0, 6.0)}) {
    const std::vector<double> seconds = {4, 4, 2, 2};
    const auto n = static_cast<std::ptrdiff_t>(layers);
    const AntichainStates first =
        states_of(chain_costs({seconds.begin(), seconds.begin() + n}, {1, 1, 10, 40}, {8, 4, 2, 1}));
    EXPECT_NEAR(pipedream_partition(first, {.form = Form::paper, .levels = {{2, 20}}}).seconds, paper, 1e-12);
    EXPECT_NEAR(pipedream_partition(first, {.form = Form::code, .levels = {{2, 20}}}).seconds, code, 1e-12);
  }
}

TEST(PipeDreamPartitionTest, TiesKeepOneStage) {  // PD-2, PD-3
  PipeDreamResult result =
      pipedream_partition(states_of(chain_costs({6, 3, 3}, {}, {})), {.form = Form::code, .levels = {{2, 1}}});
  EXPECT_DOUBLE_EQ(result.seconds, 6);
  EXPECT_EQ(text_of(result.stages), "(0,2,2)");
  result = pipedream_partition(states_of(chain_costs({6}, {}, {})), {.levels = {{4, 1}}});
  EXPECT_DOUBLE_EQ(result.seconds, 1.5);
}

TEST(PipeDreamPartitionTest, FewerMachinesWhereMoreDoNotHelp) {
  // One layer whose synchronisation costs more than it saves.
  const AntichainStates states = states_of(chain_costs({1}, {100}, {1}));
  EXPECT_GT(pipedream_partition(states, {.form = Form::code, .levels = {{2, 1}}}).seconds, 1);
  const AntichainStates two = states_of(chain_costs({1, 0}, {100, 0}, {1, 1}));
  const PipeDreamResult result =
      pipedream_partition(two, {.form = Form::code, .levels = {{3, 1}}, .fewer_machines = true});
  EXPECT_DOUBLE_EQ(result.seconds, 1);
}

TEST(PipeDreamPartitionTest, MemoryLimitsWhatIsInFlight) {
  const CostGraph costs = chain_costs({3, 3}, {10, 10}, {10, 10});
  PipeDreamOptions options{.form = Form::code, .levels = {{2, 1e9}}};
  options.memory = 1;  // the last stage has no version but the live one, the first needs 20 bytes
  EXPECT_TRUE(pipedream_partition(states_of(costs), options).stages.size() <= 1);
  options.memory = 1000;
  EXPECT_DOUBLE_EQ(pipedream_partition(states_of(costs), options).seconds, 3);
}

TEST(PipeDreamPartitionTest, OutOfTimeKeepsAPlan) {
  PipeDreamOptions options{.form = Form::paper, .levels = {{4, 10}}};
  EXPECT_TRUE(pipedream_partition(four_layers(), options).complete);
  options.limits.seconds = 0;
  const PipeDreamResult whole = pipedream_partition(four_layers(), options);
  EXPECT_FALSE(whole.complete);
  EXPECT_EQ(text_of(whole.stages), "(0,3,4)");
  EXPECT_DOUBLE_EQ(whole.seconds, 2 * 3 * 52 / 10.0 / 4);
  options.max_replicas = 1;  // one device a stage: nothing is found without a cut
  EXPECT_TRUE(pipedream_partition(four_layers(), options).stages.empty());
}

TEST(PipeDreamPartitionTest, TablesDecideHowManyStatesFit) {
  const std::vector<MachineLevel> levels = {{4, 1}, {2, 1}};
  const std::int64_t n = states_within(1 << 20, levels);
  EXPECT_GT(n, 60);
  EXPECT_LT(n, 90);  // 6 cells of 24 bytes and 3 numbers for every pair
  EXPECT_EQ(states_within(1, levels), 1);
}

TEST(PipeDreamPartitionTest, BadLevelsAreRejected) {
  EXPECT_EQ(error_of([] { pipedream_partition(four_layers(), {}); }), "pipedream: no level of machines is given");
  EXPECT_EQ(error_of([] {
              pipedream_partition(four_layers(), {.levels = {{2, 0}}});
            }),
            "pipedream: level 0 has no machines or bandwidth");
}

TEST(AntichainStatesTest, OfADiamond) {
  // 0 -> {1, 2} -> 3: ends after 0, 1, 2, {1, 2}, 3.
  CostGraph costs = chain_costs({1, 2, 4, 8}, {}, {10, 20, 30, 40});
  costs.layers[2].inputs = {0};
  costs.layers[3].inputs = {1, 2};
  const AntichainStates states = states_of(costs);
  ASSERT_EQ(states.size(), 5u);
  EXPECT_TRUE(states.complete);
  EXPECT_EQ(states.groups.front(), std::vector{0});
  EXPECT_EQ(states.groups.back(), (std::vector{0, 1, 2, 3}));
  EXPECT_DOUBLE_EQ(states.seconds.back(), 15);
  for (std::size_t s = 0; s < states.size(); ++s)
    if (states.groups[s] == std::vector{0, 1}) {
      EXPECT_DOUBLE_EQ(states.output[s], 30);  // 0 still feeds 2
      EXPECT_EQ(states.predecessors[s], std::vector{0});
    }
}

TEST(AntichainStatesTest, TooManyAreTheUnitsInTheirOrder) {
  CostGraph costs = chain_costs({1, 2, 4, 8}, {}, {10, 20, 30, 40});
  costs.layers[2].inputs = {0};
  costs.layers[3].inputs = {1, 2};
  const AntichainStates states = antichain_states(layer_groups(costs), 3);
  EXPECT_FALSE(states.complete);
  ASSERT_EQ(states.size(), 4u);
  EXPECT_DOUBLE_EQ(states.output[1], 30);  // of 0 and 1
  EXPECT_EQ(states.predecessors[3], (std::vector{0, 1, 2}));
}

TEST(AntichainStatesTest, AChainCanEndStagesInFewerPlaces) {
  const AntichainStates all = states_of(chain_costs({1, 2, 4, 8, 16}, {1, 1, 1, 1, 1}, {10, 20, 30, 40, 50}));
  const AntichainStates some = thinned(all, 2);
  EXPECT_FALSE(some.complete);
  ASSERT_EQ(some.size(), 2u);
  EXPECT_EQ(some.groups[0], (std::vector{0, 1}));
  EXPECT_EQ(some.groups[1], (std::vector{0, 1, 2, 3, 4}));
  EXPECT_DOUBLE_EQ(some.seconds[0], 3);
  EXPECT_DOUBLE_EQ(some.output[0], 20);
  EXPECT_EQ(some.predecessors[1], std::vector{0});
  EXPECT_TRUE(some.precedes[0][1]);
  EXPECT_FALSE(some.precedes[1][0]);
  EXPECT_TRUE(thinned(all, 5).complete);
  const PipeDreamResult result =
      pipedream_partition(some, {.form = Form::paper, .levels = {{2, 1e9}}, .max_replicas = 1});
  EXPECT_DOUBLE_EQ(result.seconds, 28);  // {0, 1} | {2, 3, 4}; all five cuts give 16
}

TEST(AntichainStatesTest, SeveralSourcesAreTakenInOrder) {
  CostGraph costs = chain_costs({1, 2, 4}, {}, {1, 1, 1});
  costs.layers[1].inputs = {-2};  // nothing leads from layer 0 to layer 1
  costs.layers[2].inputs = {0, 1};
  const AntichainStates states = states_of(costs);
  EXPECT_EQ(states.groups.back(), (std::vector{0, 1, 2}));
  EXPECT_DOUBLE_EQ(states.seconds.back(), 7);
}

// Every cut of a chain into stages with every number of machines for each, one level.
double brute_force(const std::vector<double>& c, const std::vector<std::int64_t>& w, const std::vector<std::int64_t>& a,
                   int machines, double bandwidth, Form form) {
  const int n = static_cast<int>(c.size());
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(int, int, double)> extend = [&](int first, int left, double slowest) {
    if (first == n) {
      if (left == 0) best = std::min(best, slowest);
      return;
    }
    double compute = 0, parameters = 0;
    for (int last = first; last < n; ++last) {
      compute += c[last];
      parameters += static_cast<double>(w[last]);
      for (int m = 1; m <= left; ++m) {
        double time = form == Form::paper ? std::max(compute, 2 * (m - 1) * parameters / bandwidth) / m
                                          : (compute + 4 * (m - 1) * parameters / (bandwidth * m)) / m;
        if (form == Form::paper && last + 1 < n) time = std::max(time, 2 * static_cast<double>(a[last]) / bandwidth);
        extend(last + 1, left - m, std::max(slowest, time));
      }
    }
  };
  extend(0, machines, 0);
  return best;
}

RC_GTEST_PROP(PipeDreamPartitionTest, IsAsGoodAsBruteForceAndAsTheBalancedChain, ()) {
  const std::size_t n = *rc::gen::inRange<std::size_t>(1, 7);
  std::vector<double> c(n);
  std::vector<std::int64_t> w(n), a(n);
  for (std::size_t i = 0; i < n; ++i) {
    c[i] = *rc::gen::inRange(1, 12);
    w[i] = *rc::gen::inRange(0, 40);
    a[i] = *rc::gen::inRange(0, 20);
  }
  const int machines_number = *rc::gen::inRange(1, 6);
  const double bandwidth = *rc::gen::element(2.0, 10.0, 1000.0);
  const AntichainStates states = states_of(chain_costs(c, w, a));
  for (const Form form : {Form::paper, Form::code}) {
    const PipeDreamResult result =
        pipedream_partition(states, {.form = form, .levels = {{machines_number, bandwidth}}});
    const double best = brute_force(c, w, a, machines_number, bandwidth, form);
    RC_ASSERT(std::abs(result.seconds - best) <= 1e-9 * best);
    int used = 0, at = 0;
    for (const PipeDreamStage& stage : result.stages) {
      RC_ASSERT(stage.first == at);
      at = stage.last;
      used += stage.machines[0];
    }
    RC_ASSERT(at == static_cast<int>(n));
    RC_ASSERT(used == machines_number);
    if (form == Form::code && machines_number <= static_cast<int>(n)) {
      double balanced = 0;
      partition_chain(
          static_cast<int>(n), machines_number,
          [&](int f, int l, int) {
            double sum = 0;
            for (int i = f; i < l; ++i) sum += c[i];
            return sum;
          },
          &balanced);
      RC_ASSERT(result.seconds <= balanced * (1 + 1e-9));
    }
  }
}

}  // namespace
}  // namespace sluice
