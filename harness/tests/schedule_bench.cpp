// How fast schedules are made, checked and lowered, for every synchronous system, and orders that are rules are timed:
// items are schedule ops. 256 ranks and 1,024 micro-batches must take a second at most; seconds grow with the ops.
#include <benchmark/benchmark.h>

#include "harness/pipeline/orders.h"
#include "harness/pipeline/system.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/check_schedule.h"
#include "harness/program/lowering.h"
#include "harness/program/program.h"
#include "harness/sim/chain_clock.h"

namespace sluice {
namespace {

struct Case {
  std::string name;
  std::map<std::string, std::string> options;
  int microbatches = 1024;
};

void make_schedule(benchmark::State& state, const Case& c, bool lowers) {
  const System& system = find_system(c.name, "benchmark");
  const Options options = resolve_options(system.options, c.options, "benchmark");
  constexpr int kRanks = 256;
  const Cluster cluster{
      .name = "flat", .source = "", .devices = std::vector<Device>(kRanks, Device{.speed = 1}), .links = {}};
  const StageCost stage{Seconds(10), Seconds(12), Seconds(8), Seconds(0), Bytes(0)};
  const ScheduleProblem problem = uniform_chain(system, options, cluster, kRanks, c.microbatches, stage).problem;
  std::size_t ops = 0;
  for (auto _ : state) {
    const Schedule schedule = system.schedule(problem, options);
    if (lowers) {
      benchmark::DoNotOptimize(lower(schedule, problem.graph, problem.placement, system.weights(problem, options)));
    } else if (!check(schedule, problem.graph, problem.placement).empty()) {
      state.SkipWithError("the schedule does not check");
    }
    for (const auto& rank : schedule.ranks) ops += rank.size();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(ops));
}

// One update of 1F1B: 10^3 to 10^8 ops on half as many ranks as there are micro-batches.
void time_rule(benchmark::State& state) {
  const auto ranks = static_cast<int>(state.range(0)), microbatches = 2 * ranks;
  const OpRule rule = orders::one_f_one_b_rule(ranks, microbatches);
  const std::vector<StageCost> costs(static_cast<std::size_t>(ranks),
                                     {Seconds(10), Seconds(12), Seconds(8), Seconds(0), Bytes(0)});
  for (auto _ : state) benchmark::DoNotOptimize(time_chain(rule, costs, ranks, microbatches, Seconds(1), 1));
  const std::int64_t ops = 2LL * ranks * microbatches;
  state.SetItemsProcessed(ops * state.iterations());
  state.SetComplexityN(ops);
}
BENCHMARK(time_rule)
    ->Arg(16)
    ->Arg(50)
    ->Arg(158)
    ->Arg(500)
    ->Arg(1581)
    ->Arg(5000)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oN);

const Case kCases[] = {
    {"gpipe", {}},
    {"one_f_one_b", {}},
    {"interleaved_1f1b", {}},
    {"interleaved_1f1b", {{"chunks", "4"}}},
    {"breadth_first", {}},
    {"zero_bubble", {{"variant", "h1"}}},
    {"zero_bubble", {{"variant", "h2"}}},
    {"zero_bubble", {{"variant", "v"}}},
    {"zero_bubble", {{"variant", "auto"}}},
    {"zero_bubble", {{"variant", "auto"}, {"memory", "512"}}},
    {"dualpipe", {}},
    {"dualpipe", {{"variant", "v"}}},
    {"chimera", {}},
    {"hanayo", {}},
    {"hanayo", {{"waves", "2"}}},
    {"zeropp", {}},
    {"zeropp", {{"unit", "511"}}},
    {"fsdp", {}},
    {"layerpipe_style", {}},
    {"gpipe", {{"recompute", "needed"}}},
    {"hanayo", {{"waves", "4"}}},
    {"breadth_first", {{"chunks", "4"}}},
    {"zeropp", {{"chunks", "4"}}},
};

const bool kRegistered = [] {
  for (const Case& c : kCases)
    for (const bool lowers : {false, true}) {
      std::string name = lowers ? "lower/" : "check/";
      name += c.name;
      for (const auto& [key, value] : c.options) name += " " + key + "=" + value;
      benchmark::RegisterBenchmark(name.c_str(), make_schedule, c, lowers)->Unit(benchmark::kMillisecond);
    }
  return true;
}();

}  // namespace
}  // namespace sluice
