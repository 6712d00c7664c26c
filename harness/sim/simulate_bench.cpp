// How many schedule ops (F and B) the virtual clock runs a second, on one core.
#include <benchmark/benchmark.h>

#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/made_cluster.h"
#include "harness/sim/simulate.h"

namespace sluice {
namespace {

void run(benchmark::State& state, const Cluster& cluster, bool time_ordered, bool trace, Bytes message) {
  const int ranks = static_cast<int>(state.range(0)), microbatches = static_cast<int>(state.range(1));
  const Program program =
      lower(example_1f1b(ranks, microbatches), chain(ranks), one_stage_per_rank(ranks), WeightRule{});
  Costs costs = uniform_costs(ranks, 1e-3, 1e-3, 1e-3);
  for (int s = 0; s + 1 < ranks; ++s)
    if (message.value > 0) costs.edges.push_back({StageId(s), StageId(s + 1), message});
  const std::vector<DeviceId> devices = identity_devices(ranks);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        simulate(program, costs, cluster, devices, {.trace = trace, .time_ordered = time_ordered}).end);
  state.SetItemsProcessed(state.iterations() * 2 * ranks * microbatches);
}

void uniform_latency(benchmark::State& state) {
  run(state, latency_cluster(static_cast<int>(state.range(0)), Seconds(1e-4)), false, false, Bytes(0));
}
BENCHMARK(uniform_latency)
    ->Args({64, 1024})
    ->Args({1024, 4096})
    ->Args({16384, 512})
    ->Args({65536, 256})
    ->Unit(benchmark::kMillisecond);

void uniform_latency_traced(benchmark::State& state) {
  run(state, latency_cluster(static_cast<int>(state.range(0)), Seconds(1e-4)), false, true, Bytes(0));
}
BENCHMARK(uniform_latency_traced)->Args({256, 1024})->Unit(benchmark::kMillisecond);

// Every link has a rate of its own, and all sends are taken in order of time: the check of the faster engine.
void in_order_of_time(benchmark::State& state) {
  Cluster cluster = latency_cluster(static_cast<int>(state.range(0)), Seconds(1e-4));
  each_link(cluster, [](Link& link) { link.bandwidth = 1e9; });
  run(state, cluster, true, false, KiB(64));
}
BENCHMARK(in_order_of_time)->Args({256, 1024})->Unit(benchmark::kMillisecond);

// Nodes of range(2) devices, each with one network card that its messages to other nodes, and theirs to it, queue for.
void shared_links(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0)), node = static_cast<int>(state.range(2));
  Cluster cluster = latency_cluster(ranks, Seconds(1e-4));
  each_link(cluster, [](Link& link) { link.bandwidth = 1e9; });
  list_links(cluster);
  for (Link& link : cluster.links) {
    const int from = link.from.value / node, to = link.to.value / node;
    if (from != to) link.group = from, link.to_group = to;
  }
  run(state, cluster, false, false, KiB(64));
}
BENCHMARK(shared_links)->Args({256, 1024, 8})->Args({256, 1024, 1})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
