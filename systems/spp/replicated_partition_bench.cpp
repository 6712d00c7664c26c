// How long SPP's steps take: an order for the devices, the partition program over every number of
// stages, and the list schedule of each plan it finds. Targets, one core: L = 50 layers on V = 16
// devices at most 1 s, L = 200 on V = 128 at most 60 s.
#include <benchmark/benchmark.h>

#include <limits>
#include <random>

#include "systems/spp/device_order.h"
#include "systems/spp/replicated_partition.h"

namespace sluice {
namespace {

// Servers of eight devices: 25e9 bytes/s inside, 3.125e9 between.
SquareMatrix servers_of_eight(std::size_t devices) {
  SquareMatrix bandwidths(devices);
  for (std::size_t a = 0; a < devices; ++a)
    for (std::size_t b = 0; b < devices; ++b) bandwidths.at(a, b) = a / 8 == b / 8 ? 25e9 : 3.125e9;
  return bandwidths;
}

// Layers of 1 to 5 ms forward and twice that back, up to 64 MB of output and of parameters.
LayerChain uneven_chain(std::size_t layers) {
  std::mt19937 random(1);
  const auto list = [&](std::size_t n, double from, double to) {
    std::vector<double> values;
    for (std::size_t k = 0; k < n; ++k)
      values.push_back(from + (to - from) * (static_cast<double>(random()) / 4294967296.0));
    return values;
  };
  LayerChain chain{.forward = list(layers, 1e-3, 5e-3)};
  for (const double seconds : chain.forward) chain.backward.push_back(2 * seconds);
  chain.parameters = list(layers, 0, 64e6);
  chain.outputs = list(layers, 1e6, 64e6);
  chain.cut_forward.assign(chain.outputs.begin(), chain.outputs.end() - 1);
  chain.cut_backward = chain.cut_forward;
  return chain;
}

void order_devices(benchmark::State& state) {
  const SquareMatrix bandwidths = servers_of_eight(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(recursive_min_cut_order(bandwidths));
}
BENCHMARK(order_devices)->ArgName("devices")->Arg(16)->Arg(128)->Unit(benchmark::kMillisecond);

void plan_every_number_of_stages(benchmark::State& state) {
  const auto layers = static_cast<std::size_t>(state.range(0)), devices = static_cast<std::size_t>(state.range(1));
  ReplicationProblem p{.chain = uneven_chain(layers),
                       .bandwidths = servers_of_eight(devices),
                       .speeds = std::vector<double>(devices, 1),
                       .microbatches = 4 * static_cast<int>(devices)};
  std::int64_t states = 0;
  for (auto _ : state) {
    const ReplicatedPartitions found = partition_and_replicate(p);
    if (!found.complete) state.SkipWithError("the search was cut short");
    double least = std::numeric_limits<double>::infinity();
    for (const auto& partition : found.by_stages)
      least = std::min(least, list_schedule(pipeline_times(p, partition.value().stages), p.microbatches).makespan);
    benchmark::DoNotOptimize(least);
    states += found.states;
  }
  state.counters["states"] = benchmark::Counter(static_cast<double>(states), benchmark::Counter::kAvgIterations);
}
BENCHMARK(plan_every_number_of_stages)
    ->ArgNames({"layers", "devices"})
    ->Args({50, 16})
    ->Args({200, 32})
    ->Args({200, 128})
    ->Unit(benchmark::kMillisecond);

void run_list_schedule(benchmark::State& state) {
  const auto stages = static_cast<std::size_t>(state.range(0));
  const PipelineTimes times{.forward = std::vector<double>(stages, 1),
                            .backward = std::vector<double>(stages, 2),
                            .all_reduce = std::vector<double>(stages, 0),
                            .forward_channel = std::vector<double>(stages - 1, 0.5),
                            .backward_channel = std::vector<double>(stages - 1, 0.5)};
  const ListScheduleOptions options{.rule = state.range(1) ? ListScheduleOptions::Rule::ready
                                                           : ListScheduleOptions::Rule::strict};
  std::int64_t blocks = 0;
  for (auto _ : state) blocks += static_cast<std::int64_t>(list_schedule(times, 512, options).blocks.size());
  state.SetItemsProcessed(blocks);
}
BENCHMARK(run_list_schedule)
    ->ArgNames({"stages", "ready"})
    ->Args({128, 0})
    ->Args({128, 1})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
