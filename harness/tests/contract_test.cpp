// What every listed system must keep, whatever it is: its plans, schedules and weights fit together
// on generated problems, and what its theory promises is what the virtual clock shows.
// Figures of Theory count chunk-micro-batches: with v chunks a rank, each of a rank's v stages
// counts.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "harness/base/error.h"
#include "harness/base/index.h"
#include "harness/pipeline/system.h"
#include "harness/plan/make_plan.h"
#include "harness/program/check_program.h"
#include "harness/program/check_schedule.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/memory.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

// Equal layers, F : I : W = 1 : 1 : 1, four for every rank, so that 1, 2 or 4 stages a rank are all
// equal; and a loss that is fused with the last.
CostGraph uniform_layers(int ranks) {
  CostGraph graph{.model = "uniform", .source = "test", .device = "d", .micro_batch = 2, .layers = {}};
  for (int i = 0; i < 4 * ranks; ++i)
    graph.layers.push_back({"layer" + std::to_string(i),
                            {i - 1},
                            Seconds(1e-3),
                            Seconds(1e-3),
                            Seconds(1e-3),
                            Seconds(0),
                            Bytes(0),
                            Bytes(0)});
  LayerCost loss{.name = "loss", .inputs = {4 * ranks - 1}};
  loss.fused = true;
  graph.layers.push_back(loss);
  return graph;
}

// Every combination of every option that has choices, and 1, 2 and 4 stages a rank; other numbers
// keep their defaults.
std::vector<Options> choices_of(const System& system) {
  std::vector<std::map<std::string, std::string>> given = {{}};
  for (const OptionSpec& spec : system.options) {
    std::vector<std::map<std::string, std::string>> longer;
    const std::vector<std::string> stages = {"1", "2", "4"};
    for (const std::string& choice : spec.name == "chunks" ? stages : spec.choices)
      for (auto values : given) {
        values[spec.name] = choice;
        longer.push_back(values);
      }
    if (!longer.empty()) given = longer;
  }
  std::vector<Options> result;
  for (const auto& values : given) result.push_back(resolve_options(system.options, values, system.name));
  return result;
}

std::string text_of(const Options& options) {
  std::string text;
  for (const auto& [name, value] : options.values()) text += name + "=" + value + " ";
  return text;
}

// Updates between a batch's forward and its own update, the most of any batch of the run.
std::vector<int> observed_staleness(const Program& program) {
  std::vector<int> result;
  for (const auto& rank : program.ranks) {
    std::map<std::pair<StageId, Micro>, int> read;
    std::map<StageId, std::vector<int>> waiting;  // versions read by the batches of the next update
    int most = 0;
    for (const Instruction& i : rank) {
      if (i.opcode == Opcode::forward) read[{i.stage, i.micro}] = i.version;
      if (i.opcode == Opcode::backward || i.opcode == Opcode::weight_gradient)
        waiting[i.stage].push_back(read[{i.stage, i.micro}]);
      if (i.opcode != Opcode::optimizer_step) continue;
      for (const int version : waiting[i.stage]) most = std::max(most, i.version - 1 - version);
      waiting[i.stage].clear();
    }
    result.push_back(most);
  }
  return result;
}

class SystemContractTest : public testing::TestWithParam<const System*> {
 protected:
  const System& system_ = *GetParam();

  // True if the system takes the problem. Checks everything it promises.
  bool holds(int ranks, int microbatches, const Options& options) {
    const CostGraph costs = uniform_layers(ranks);
    const Cluster cluster = latency_cluster(ranks, Seconds(0));
    const int devices = system_.one_process ? 1 : ranks;
    Problem problem{costs, cluster, devices, 2L * microbatches, microbatches, {}};
    problem.simulate = [&](const Plan& plan) { return simulated(plan, costs, cluster, microbatches, options); };
    try {
      const Plan plan = make_plan(system_, problem, options);
      const StageGraph graph = stage_graph(plan, costs);
      const RankMap map = ranks_of(plan);
      const int used = count_of(map.devices);
      EXPECT_LE(used, devices);
      const ScheduleProblem order{
          graph, map.placement, used, microbatches, {}, Seconds(0), per_update(ranks, microbatches)};
      const Schedule schedule = system_.schedule(order, options);
      EXPECT_EQ(schedule.microbatches, microbatches);
      const auto found = check(schedule, graph, map.placement);
      EXPECT_TRUE(found.empty()) << found.front().text;
      if (!found.empty()) return true;
      const WeightRule rule = system_.weights(order, options);
      EXPECT_EQ(rule.synchronous(), system_.synchronous);
      const Program program = lower(schedule, graph, map.placement, rule);
      const auto wrong = check(program);
      EXPECT_TRUE(wrong.empty()) << wrong.front().text;
      const Costs stage_times = costs_of(plan, costs, cluster);
      // A plan of uneven stages is no case of a formula for even ones.
      bool even = true;
      for (const StageCost& stage : stage_times.stages)
        even = even && std::abs((stage.forward - stage_times.stages[0].forward).value) < 1e-12;
      compare_with_theory(program, schedule, system_.theory(order, options),
                          simulate(program, stage_times, cluster, map.devices), even);
      return true;
    } catch (const InputError& e) {
      EXPECT_STRNE(e.what(), "");
      return false;
    }
  }

 private:
  // Systems that accumulate: the smallest number that divides and is no less than the ranks.
  int per_update(int ranks, int microbatches) const {
    if (!system_.accumulates) return 1;
    int m = std::min(ranks, microbatches);
    while (microbatches % m != 0) ++m;
    return m;
  }
  static int costs_ranks(const CostGraph& costs) { return (count_of(costs.layers) - 1) / 4; }

  Seconds simulated(const Plan& plan, const CostGraph& costs, const Cluster& cluster, int microbatches,
                    const Options& options) const {
    const RankMap map = ranks_of(plan);
    const StageGraph graph = stage_graph(plan, costs);
    const ScheduleProblem order{graph,
                                map.placement,
                                count_of(map.devices),
                                microbatches,
                                {},
                                Seconds(0),
                                per_update(costs_ranks(costs), microbatches)};
    const Program program =
        lower(system_.schedule(order, options), graph, map.placement, system_.weights(order, options));
    return Seconds(simulate(program, costs_of(plan, costs, cluster), cluster, map.devices, {.trace = false}).end);
  }

  static void compare_with_theory(const Program& program, const Schedule& schedule, const Theory& theory,
                                  const Simulation& simulation, bool even) {
    const std::size_t ranks = program.rank_count();
    if (theory.bubble_ratio && even) {
      EXPECT_NEAR(simulation.bubble.bubble_ratio, *theory.bubble_ratio, 1e-9);
    }
    const std::vector<RankPeak> peak = peaks(schedule);
    const auto stages = std::vector<StageMemory>(program.graph.size());
    const std::vector<RankMemory> held = memory(program, stages);
    const std::vector<int> staleness = observed_staleness(program);
    const auto compare = [&](const char* what, const std::vector<int>& promised, auto observed) {
      if (promised.empty()) return;
      ASSERT_EQ(promised.size(), ranks) << what;
      for (std::size_t r = 0; r < ranks; ++r) EXPECT_EQ(observed(r), promised[r]) << what << " of rank " << r;
    };
    compare("in flight", theory.in_flight, [&](std::size_t r) { return peak[r].in_flight; });
    compare("weight versions", theory.weight_versions, [&](std::size_t r) { return held[r].peak_versions; });
    compare("staleness", theory.staleness, [&](std::size_t r) { return staleness[r]; });
  }
};

TEST_P(SystemContractTest, HoldsOnGeneratedProblems) {
  for (const Options& options : choices_of(system_)) {
    int taken = 0;
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (int microbatches = 1; microbatches <= 13; ++microbatches) {
        SCOPED_TRACE(system_.name + " " + text_of(options) + "ranks=" + std::to_string(ranks) +
                     " microbatches=" + std::to_string(microbatches));
        taken += holds(ranks, microbatches, options);
        if (HasFailure()) return;  // the first case says enough
      }
    EXPECT_GE(taken, 6) << system_.name << " " << text_of(options) << "takes hardly any problem";
  }
}

TEST_P(SystemContractTest, SaysWhatItIs) {
  EXPECT_FALSE(system_.title.empty());
  EXPECT_FALSE(system_.citation.empty());
  for (const OptionSpec& spec : system_.options) {
    EXPECT_FALSE(spec.help.empty()) << spec.name;
    // A default must be a value that a user could give.
    EXPECT_NO_THROW(resolve_options(system_.options, {{spec.name, spec.default_value}}, system_.name)) << spec.name;
  }
}

TEST_P(SystemContractTest, IsFoundByNameAndAlias) {
  EXPECT_EQ(&find_system(system_.name, "test"), &system_);
  for (const std::string& alias : system_.aliases) EXPECT_EQ(&find_system(alias, "test"), &system_);
}

std::vector<const System*> listed() { return {all_systems().begin(), all_systems().end()}; }

INSTANTIATE_TEST_SUITE_P(All, SystemContractTest, testing::ValuesIn(listed()),
                         [](const auto& test) { return test.param->name; });

TEST(SystemTableTest, NamesAndAliasesAreUnique) {
  std::set<std::string> names;
  for (const System* system : all_systems()) {
    EXPECT_TRUE(names.insert(system->name).second) << system->name;
    for (const std::string& alias : system->aliases) EXPECT_TRUE(names.insert(alias).second) << alias;
  }
  EXPECT_GE(names.size(), 5u);
}

TEST(SystemTableTest, UnknownNamesAreRefusedWithTheNearest) {
  try {
    find_system("gpip", "quick.json: /grid/0/system");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(), "quick.json: /grid/0/system: unknown system 'gpip'; did you mean 'gpipe'?");
  }
}

}  // namespace
}  // namespace sluice
