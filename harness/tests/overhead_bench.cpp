// What the executor costs on every schedule, with workers that do nothing: a compute op and an
// instruction (messages and collectives count too) over those of 1F1B. Time is processor time of
// all ranks, waiting for one another included: what the clock on the wall shows beyond it on a busy
// machine is other programs. Pinned to one core (taskset -c 0) ranks sleep rather than spin while
// they wait. The two run in turn; the figures are medians of the pairs.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "harness/exec/executor.h"
#include "harness/exec/threads.h"
#include "harness/pipeline/replicas.h"
#include "harness/pipeline/system.h"
#include "harness/plan/uniform_chain.h"
#include "harness/program/lowering.h"
#include "harness/program/program.h"

namespace sluice {
namespace {

class IdleWorker : public Worker {
 public:
  void begin_run(const Program&) override {}
  void begin_iteration(int iteration) override { iteration_ = iteration; }
  void compute(const Instruction&) override {}
  Message take(const Instruction&) override { return {}; }
  void put(const Instruction&, Message) override {}
  Buffer gradients(StageId) override { return one_element(); }
  Gathering begin_gather(StageId) override { return {one_element(), {&shard_, iteration_}}; }
  void free_weights(StageId) override {}
  Buffer begin_reduce_scatter(StageId) override { return one_element(); }
  void end_reduce_scatter(StageId) override {}
  void add_reduced(StageId, const void*) override {}
  void step(const Instruction&) override {}
  void end_run() override {}

 private:
  Buffer one_element() { return {values_.data(), 1, ElementType::float32}; }
  std::array<float, 8> values_{};
  float shard_ = 0;
  int iteration_ = 0;
};

struct Case {
  std::string system;
  std::map<std::string, std::string> options;
  int replicas = 1;  // two ranks each
};

class Subject {
 public:
  explicit Subject(const Case& c) {
    const System& system = find_system(c.system, "benchmark");
    const Options options = resolve_options(system.options, c.options, "benchmark");
    const int pipeline = system.data_parallel ? kRanks * c.replicas : kRanks;
    const PipelineReplicas replicas{.count = system.data_parallel ? 1 : c.replicas};
    const int microbatches = kMicros * c.replicas / replicas.count;
    const Cluster cluster{.name = "flat",
                          .source = "",
                          .devices = std::vector<Device>(static_cast<std::size_t>(pipeline), Device{.speed = 1}),
                          .links = {}};
    const StageCost stage{Seconds(10), Seconds(10), Seconds(10), Seconds(0), Bytes(0)};
    const UniformChain one = uniform_chain(system, options, cluster, pipeline, microbatches, stage);
    const RankMap ranks = ranks_of(replicate(one.plan, pipeline, microbatches, replicas));
    program_ = lower(replicate(system.schedule(one.problem, options), replicas), one.problem.graph, ranks.placement,
                     system.weights(one.problem, options),
                     system.sharding ? system.sharding(one.problem, options) : Sharding{});
    for (std::size_t r = 0; r < program_.rank_count(); ++r) {
      workers_.push_back(std::make_unique<IdleWorker>());
      for (const Instruction& i : program_.ranks[r]) {
        ++instructions_;
        ops_ += is_compute(i.opcode) ? 1 : 0;
      }
    }
  }
  // Of one update.
  double seconds() {
    constexpr int kIterations = 20;
    const auto transport = make_thread_transport(program_);
    const std::clock_t begin = std::clock();
    execute(program_, *transport, workers_, {.iterations = kIterations});
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / kIterations;
  }
  double ops() const { return ops_; }
  double instructions() const { return instructions_; }

 private:
  static constexpr int kRanks = 2, kMicros = 64;
  Program program_;
  std::vector<std::unique_ptr<Worker>> workers_;
  double ops_ = 0, instructions_ = 0;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void over_1f1b(benchmark::State& state, const Case& c) {
  Subject subject(c), base({"one_f_one_b", {}, c.replicas});
  std::vector<double> ratios, times;
  for (auto _ : state) {
    const double theirs = base.seconds(), ours = subject.seconds();
    ratios.push_back(ours / theirs);
    times.push_back(ours);
    state.SetIterationTime(ours);
  }
  const double ratio = median(ratios);
  state.counters["op_over_1f1b"] = ratio * base.ops() / subject.ops();
  state.counters["instruction_over_1f1b"] = ratio * base.instructions() / subject.instructions();
  state.counters["ns_per_op"] = 1e9 * median(times) / subject.ops();
}

// The paper's names of the variants are the options'. With two replicas the stages have two ranks each,
// which reduce gradients or gather and scatter.
const Case kCases[] = {
    {"one_f_one_b", {}},
    {"gpipe", {}},
    {"interleaved_1f1b", {}},
    {"breadth_first", {}},
    {"zero_bubble", {{"variant", "h1"}}},
    {"zero_bubble", {{"variant", "h2"}}},
    {"zero_bubble", {{"variant", "v"}}},
    {"dualpipe", {}},
    {"chimera", {}},
    {"hanayo", {}},
    {"zeropp", {}},
    {"one_f_one_b", {}, 2},
    {"one_f_one_b", {{"zero", "1"}}, 2},
    {"one_f_one_b", {{"zero", "3"}}, 2},
    {"breadth_first", {}, 2},
    {"zeropp", {}, 2},
    {"zeropp", {{"reduce", "microbatch"}}, 2},
    {"fsdp", {}, 2},
    {"fsdp", {{"accumulation", "keep"}}, 2},
    {"fsdp", {{"accumulation", "no_sync"}}, 2},
};

const bool kRegistered = [] {
  for (const Case& c : kCases) {
    std::string name = "over_1f1b/" + c.system;
    for (const auto& [key, value] : c.options) name += "/" + key + ":" + value;
    name += "/replicas:" + std::to_string(c.replicas);
    benchmark::RegisterBenchmark(name.c_str(), over_1f1b, c)
        ->UseManualTime()
        ->Iterations(15)
        ->Unit(benchmark::kMicrosecond);
  }
  return true;
}();

}  // namespace
}  // namespace sluice
