// What a weight rule costs: time of a micro-batch of every asynchronous system over naive 1F1B's,
// whose forwards and backwards read the one version there is. Prediction is one fused pass over a
// stage's weights a forward, SpecTrain's one more a backward; stashing copies nothing. The model is
// of the kind that shows it most: large weights, few samples.
#include <benchmark/benchmark.h>

#include "harness/tests/test_support.h"

namespace sluice {
namespace {

struct Rule {
  const char* name;
  const char* system;
  std::map<std::string, std::string> options;
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      {"naive", "pipedream", {{"weights", "naive"}}},
      {"pipedream", "pipedream", {}},
      {"vertical_sync", "pipedream", {{"weights", "vertical_sync"}}},
      {"pipedream_2bw", "pipedream_2bw", {}},
      {"spectrain", "spectrain", {}},
      {"spectrain_reuse", "spectrain", {{"variant", "reuse"}}},
      {"pipeoptim", "pipeoptim", {}},
      {"pipeoptim_code", "pipeoptim", {{"s", "code"}, {"delta", "code"}}},
      {"pipemare", "pipemare", {}},
      {"xpipe", "xpipe", {}},
  };
  return all;
}

// A timed run of 60 batches of 32 on two ranks; 2BW and XPipe take two micro-batches an update.
class Subject {
 public:
  Subject(const Rule& rule, OptimizerSpec::Kind kind)
      : setup_(rule.system, rule.options, mlp_regression(1024, 8), 2,
               find_system(rule.system, "bench").accumulates ? 64 : 32,
               find_system(rule.system, "bench").accumulates ? 2 : 1),
        program_(make_program(setup_.prepared, kMicros)) {
    SessionSpec spec =
        setup_.spec({.kind = kind, .learning_rate = 1e-5, .momentum = kind == OptimizerSpec::Kind::sgd ? 0.9 : 0});
    spec.synthetic_batch = 64;
    session_ = make_session(spec);
  }
  double seconds_per_microbatch() { return session_->run(program_, {}).execution.seconds / kMicros; }

 private:
  static constexpr int kMicros = 60;
  TestSetup setup_;
  Program program_;
  std::unique_ptr<Session> session_;
};

void over_naive(benchmark::State& state) {
  const Rule& rule = rules()[state.range(0)];
  const auto kind = state.range(1) != 0 ? OptimizerSpec::Kind::adam : OptimizerSpec::Kind::sgd;
  state.SetLabel(std::string(rule.name) + (state.range(1) != 0 ? ", Adam" : ", SGD momentum"));
  Subject naive(rules().front(), kind), subject(rule, kind);
  naive.seconds_per_microbatch();
  subject.seconds_per_microbatch();
  double ours = 0, base = 0;
  for (auto _ : state) {  // in turn, so that what disturbs the machine disturbs both
    base += naive.seconds_per_microbatch();
    const double seconds = subject.seconds_per_microbatch();
    ours += seconds;
    state.SetIterationTime(seconds);
  }
  state.counters["over_naive"] = ours / base;
}
BENCHMARK(over_naive)
    ->ArgNames({"rule", "adam"})
    ->ArgsProduct({benchmark::CreateDenseRange(0, 9, 1), {0, 1}})
    ->UseManualTime()
    ->Iterations(12)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
