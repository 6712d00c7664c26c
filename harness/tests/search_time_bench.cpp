// GraphPipe's claim of section 7.2: its search is 9 to 21 times faster than PipeDream's and Piper's
// on models with branches, because it cuts n chains of k operators where they cut one of n k, or
// all down-sets. Processor time of one core, on the paper's three models and device counts and on 8
// branches of 8 layers; all planners are our own and as fast as we can make them.
//
//   graphpipe   the stage graphs of the series-parallel tree
//   sequential  the same program on the operators in a row: the authors' "PipeDream", a chain with
//               data-parallel stages
//   piper       the down-sets of all operators, at most 40,000 as in its authors' program; a model
//               with more is cut as a chain ("complete" is 0 then)
//   piper_all   every down-set, until 10 s are over
//
// The first two choose one micro-batch for all stages (micro_batch=uniform), as the paper evaluates
// them, and do not ask the simulator.
#include <benchmark/benchmark.h>
#include <sluice_build.h>

#include <map>
#include <memory>

#include "baselines/piper/piper_search.h"
#include "harness/pipeline/system.h"
#include "harness/plan/machines.h"
#include "harness/plan/make_plan.h"
#include "workloads/models/models.h"
#include "workloads/models/registry.h"

namespace sluice {
namespace {

struct Input {
  const char* name;
  int samples_per_device;
};
constexpr Input kInputs[] = {{"mmt", 16}, {"dlrm", 256}, {"uno", 512}, {"branches_8x8", 512}};
constexpr int kMicrobatches = 32;

ModelGraph model_of(const std::string& name) {
  if (name == "branches_8x8") return drug_response({.branches = 8, .layers = 8, .width = 4096});
  return find_workload(name).model;
}

struct Case {
  Case(const Input& input, int used)
      : devices(used),
        model(model_of(input.name)),
        stashes(model, model.shapes()),
        cluster(load_cluster("summit_v100", SLUICE_SOURCE_DIR "/workloads/clusters")),
        batch(std::int64_t{input.samples_per_device} * used) {
    for (std::int64_t b = batch / kMicrobatches; b <= batch; b *= 2)
      profiles[b] = std::make_shared<CostGraph>(analytic_costs(model, b, cluster.devices.front()));
    costs = *profiles.at(batch / kMicrobatches);
  }
  Problem problem() const {
    Problem p{costs, cluster, devices, batch, kMicrobatches, {}};
    p.costs_at = [this](std::int64_t micro_batch) { return profiles.at(micro_batch); };
    p.footprint = [this](std::span<const int> layers) {
      Bytes weights;
      for (const int l : layers) weights += costs.layers[l].parameters;
      const GrowingStash stash = stashes.of(layers);
      return Problem::Footprint{3 * weights, stash.per_micro_batch.forward, stash.per_sample.forward};
    };
    return p;
  }

  int devices;
  ModelGraph model;
  StageStashes stashes;
  Cluster cluster;
  std::int64_t batch;
  // By micro-batch: what the search is given.
  std::map<std::int64_t, std::shared_ptr<const CostGraph>> profiles;
  CostGraph costs;
};

void facts(benchmark::State& state, const Input& input, std::int64_t states, bool complete, double objective) {
  state.SetLabel(input.name);
  state.counters["states"] = static_cast<double>(states);
  state.counters["complete"] = complete;
  state.counters["objective"] = objective;
}

void graphpipe(benchmark::State& state, const std::string& partition) {
  const Input& input = kInputs[state.range(0)];
  const Case c(input, static_cast<int>(state.range(1)));
  const System& system = find_system("graphpipe", "benchmark");
  const Options options = resolve_options(
      system.options, {{"partition", partition}, {"micro_batch", "uniform"}, {"rank", "objective"}}, "benchmark");
  const Problem problem = c.problem();
  Plan plan;
  for (auto _ : state) plan = make_plan(system, problem, options).plan;
  facts(state, input, plan.search.states, plan.search.complete, plan.search.objective);
}

void piper(benchmark::State& state, const SearchLimits& limits) {
  const Input& input = kInputs[state.range(0)];
  const Case c(input, static_cast<int>(state.range(1)));
  const PiperOptions options{.devices = c.devices,
                             .microbatches = kMicrobatches,
                             .bandwidth = Bandwidths(c.cluster, c.devices).slowest(),
                             .memory = smallest_memory(c.cluster, c.devices),
                             .limits = limits};
  PiperResult result;
  for (auto _ : state) result = piper_search(c.costs, options);
  facts(state, input, result.states, result.complete, result.seconds / static_cast<double>(c.costs.micro_batch));
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"input", "devices"})->ArgsProduct({{0, 1, 2, 3}, {4, 8, 16, 32}})->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(graphpipe, graphpipe, "series_parallel")->Apply(sizes);
BENCHMARK_CAPTURE(graphpipe, sequential, "sequential")->Apply(sizes);
BENCHMARK_CAPTURE(piper, piper, SearchLimits{.seconds = 60})->Apply(sizes);
BENCHMARK_CAPTURE(piper, piper_all, SearchLimits{.seconds = 10, .sets = 1'000'000})->Apply(sizes)->Iterations(1);

}  // namespace
}  // namespace sluice
