// GraphPipe's search on one core: branches of distinct operators that meet in a join, power-of-two
// degrees, a fixed micro-batch of 8 that replicas share. `row` cuts the same operators as one
// chain. States are those solved, over all times tried.
#include <benchmark/benchmark.h>

#include "systems/graphpipe/stage_graph_search.h"

namespace sluice {
namespace {

void search(benchmark::State& state, bool row) {
  const int branches = static_cast<int>(state.range(0)), layers = static_cast<int>(state.range(1));
  const int n = branches * layers + 1;
  std::vector<std::pair<int, int>> edges;
  std::vector<double> weights;
  for (int v = 0; v < n; ++v) {
    weights.push_back(1 + (v * 7919 % 97) / 97.0);
    if (row && v > 0) edges.push_back({v - 1, v});
    if (!row && v + 1 < n) edges.push_back({v, v % layers + 1 < layers ? v + 1 : n - 1});
  }
  const SeriesParallelTree tree = series_parallel(n, edges, "benchmark");
  StageSearchSpace space;
  space.devices = static_cast<int>(state.range(2));
  space.microbatches = 512;
  space.degrees.clear();
  for (int d = 1; d <= std::min(space.devices, 8); d *= 2) space.degrees.push_back(d);
  space.configs = {{8, 1}};
  const std::vector<int> microbatches_per_op = space.microbatches_per_op();
  space.work = [&](std::span<const int> vertices) {
    StageWork work;
    double sum = 0;
    for (const int v : vertices) sum += weights[v];
    for (const int g : microbatches_per_op) {
      work.compute.push_back(sum * g);
      work.communication.push_back(0.05 * g);
    }
    for (const int d : space.degrees) work.all_reduce.push_back(sum * (d - 1));
    return work;
  };
  space.footprint = [&](std::span<const int> vertices) {
    const auto bytes = static_cast<std::int64_t>(vertices.size());
    return StageFootprint{100 * bytes, 0, bytes};
  };
  space.memory = 8000;
  StageSearchResult result;
  for (auto _ : state) result = StageGraphSearch(tree, space).run();
  if (!result.complete || result.stages.empty()) state.SkipWithError("no plan");
  state.counters["states"] = static_cast<double>(result.states);
  state.counters["slowest"] = result.slowest;
  state.counters["stages"] = static_cast<double>(result.stages.size());
}

void BM_Graph(benchmark::State& state) { search(state, false); }
void BM_Row(benchmark::State& state) { search(state, true); }
BENCHMARK(BM_Graph)
    ->ArgNames({"branches", "layers", "devices"})
    ->ArgsProduct({{2, 4, 8, 16}, {4, 8}, {4, 8, 16, 32}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Row)
    ->ArgNames({"branches", "layers", "devices"})
    ->ArgsProduct({{2, 4, 8}, {4, 8}, {8, 32}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
