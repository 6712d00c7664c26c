// How fast schedules are made, checked and lowered: items are schedule ops (F and B).
#include <benchmark/benchmark.h>

#include "harness/core/check.h"
#include "harness/core/program.h"
#include "harness/core/system.h"

namespace sluice {
namespace {

void generate_check_and_lower(benchmark::State& state) {
  const System& system = find_system("one_f_one_b", "benchmark");
  const Options options = resolve_options(system.options, {}, "benchmark");
  const int ranks = static_cast<int>(state.range(0)),
            microbatches = static_cast<int>(state.range(1));
  const ScheduleProblem problem{chain(ranks), one_stage_per_rank(ranks), ranks, microbatches};
  const bool lowers = state.range(2) != 0;
  for (auto _ : state) {
    const Schedule schedule = system.schedule(problem, options);
    if (lowers) {
      benchmark::DoNotOptimize(
          lower(schedule, problem.graph, problem.placement, system.weights(problem, options)));
    } else if (!check(schedule, problem.graph, problem.placement).empty()) {
      state.SkipWithError("the schedule does not check");
    }
  }
  state.SetItemsProcessed(state.iterations() * 2 * ranks * microbatches);
}
BENCHMARK(generate_check_and_lower)
    ->ArgNames({"ranks", "microbatches", "lower"})
    ->Args({256, 1024, 0})
    ->Args({256, 1024, 1})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
