// How near the executor comes to what the machine and the order allow: the share of the limit,
//
//   (step of one process, whole batch / ranks / (1 - bubble of the order)) / measured step,
//
// on two ranks with eight micro-batches. The bubble is the order's own where F, I and W of all stages take as long. No
// runtime reaches that limit: products of an eighth of the batch are slower, layers do not divide into equal stages,
// and two cores that compute at the same time share caches and memory. So two more limits are printed: the end of the
// order with the stages as they are cut and the measured times of the ops, without messages and without the executor.
// kernels_ms takes the times with idle neighbours, contended_ms those with busy ones. What share_of_contended lacks is
// the executor's. The process and the pipeline train in turn; steps are medians. Stages are cut by a measured profile,
// which is made before, once.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "harness/base/json.h"
#include "harness/case/make_program.h"
#include "harness/case/prepare.h"
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

// The end of the program's order in seconds, without messages.
double end_of(const Program& program, const Costs& costs) {
  const Cluster cluster = latency_cluster(kRanks, Seconds(0));
  return simulate(program, costs, cluster, std::array{DeviceId(0), DeviceId(1)}, {.trace = false}).end;
}

// 1 - bubble.
double busy_share(const std::string& name) {
  const System& system = find_system(name, "benchmark");
  const StageCost stage{Seconds(1), Seconds(1), Seconds(1), Seconds(0), Bytes(0)};
  const Options options = resolve_options(system.options, {}, "benchmark");
  const UniformChain chain =
      uniform_chain(system, options, latency_cluster(kRanks, Seconds(0)), kRanks, kMicrobatches, stage);
  const ScheduleProblem& problem = chain.problem;
  const Program program =
      lower(system.schedule(problem, options), problem.graph, problem.placement, system.weights(problem, options));
  return 3.0 * kMicrobatches / end_of(program, {problem.costs, {}});
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
  // The least seconds of an update with the profile's ops and no executor. contended: every op takes what it takes
  // while the other rank computes.
  double least_seconds(bool contended) const {
    const Prepared p = prepare(case_, test_profiles());
    Costs costs{stage_costs(p.plan, p.costs, p.cluster), {}};
    costs.batched_weight_gradients = p.batched_weight_gradients;
    for (StageCost& stage : costs.stages) {
      const StageCost::Contention slower = contended ? stage.contention : StageCost::Contention{};
      stage.forward = stage.forward * slower.forward;
      stage.input_gradient = stage.input_gradient * slower.input_gradient;
      for (Seconds* weights : {&stage.weight_gradient, &stage.batched_weight_gradient, &stage.split_weight_gradient})
        *weights = *weights * slower.weight_gradient;
      stage.update = stage.update * slower.update;
      stage.contention = {};
    }
    return end_of(make_program(p, kMicrobatches), costs);
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
  for (const bool contended : {false, true}) {
    const std::string name = contended ? "contended" : "kernels";
    const double least = pipeline.least_seconds(contended);
    state.counters[name + "_ms"] = 1e3 * least;
    state.counters["share_of_" + name] = least / two;
  }
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
