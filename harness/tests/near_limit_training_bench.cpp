// How near the executor comes to what the machine and the order allow: the share of the limit,
//
//   (step of one process, whole batch / ranks / (1 - bubble of the order)) / measured step,
//
// on two ranks with eight micro-batches. The bubble is the order's own where F, I and W of all stages take as long;
// what the share lacks is what unequal stages, smaller products and the executor cost. The process and the pipeline
// train in turn; steps are medians. Stages are cut by a measured profile, which is made before, once.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "harness/base/json.h"
#include "harness/case/settings.h"
#include "harness/case/test_profiles.h"
#include "harness/pipeline/system.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/lowering.h"
#include "harness/run/run_case.h"
#include "harness/sim/latency_cluster.h"
#include "harness/sim/simulate.h"
#include "results/metrics.h"

namespace sluice {
namespace {

constexpr int kRanks = 2, kMicrobatches = 8;

// 1 - bubble.
double busy_share(const std::string& name) {
  const System& system = find_system(name, "benchmark");
  const StageCost stage{Seconds(1), Seconds(1), Seconds(1), Seconds(0), Bytes(0)};
  const Options options = resolve_options(system.options, {}, "benchmark");
  const Cluster cluster = latency_cluster(kRanks, Seconds(0));
  const UniformChain chain = uniform_chain(system, options, cluster, kRanks, kMicrobatches, stage);
  const ScheduleProblem& problem = chain.problem;
  const Program program =
      lower(system.schedule(problem, options), problem.graph, problem.placement, system.weights(problem, options));
  const double end = simulate(program, {problem.costs, {}}, cluster, chain.devices, {.trace = false}).end;
  return 3.0 * kMicrobatches / end;
}

class Subject {
 public:
  Subject(const std::string& workload, const std::string& system, const std::string& weight_gradient)
      : case_(resolve({{{"system", system},
                        {"workload", workload},
                        {"clock", "wall"},
                        {"ranks", system == "single_device" ? 1 : kRanks},
                        {"microbatches", system == "single_device" ? 1 : kMicrobatches},
                        {"weight_gradient", weight_gradient},
                        {"steps", 16}},
                       in_file("benchmark")})) {}
  // Of a step, the median of a run.
  double seconds() const {
    const Record record = run_case(case_, test_profiles(), {});
    if (record.outcome != RecordOutcome::ok) throw std::runtime_error(record.reason);
    return static_cast<double>(record.samples_per_step) / throughput(record).value().samples_per_second;
  }

 private:
  RunCase case_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void near_limit(benchmark::State& state, const std::string& workload, const std::string& system,
                const std::string& weight_gradient) {
  const Subject process(workload, "single_device", "per_microbatch"), pipeline(workload, system, weight_gradient);
  process.seconds();
  pipeline.seconds();
  std::vector<double> of_process, of_pipeline;
  for (auto _ : state) {
    of_process.push_back(process.seconds());
    of_pipeline.push_back(pipeline.seconds());
    state.SetIterationTime(of_pipeline.back());
  }
  const double one = median(of_process), two = median(of_pipeline);
  state.counters["one_process_ms"] = 1e3 * one;
  state.counters["pipeline_ms"] = 1e3 * two;
  state.counters["share_of_limit"] = one / kRanks / busy_share(system) / two;
}

const bool kRegistered = [] {
  for (const char* workload : {"mlp1024", "tfm256", "fmnist_cnn", "sentiment_transformer"})
    for (const char* system : {"one_f_one_b", "zero_bubble"})
      for (const char* weight_gradient : {"per_microbatch", "batched", "auto"})
        benchmark::RegisterBenchmark(fmt::format("near_limit/{}/{}/{}", workload, system, weight_gradient).c_str(),
                                     near_limit, workload, system, weight_gradient)
            ->UseManualTime()
            ->Iterations(5)
            ->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace sluice
