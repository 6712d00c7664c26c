// What the executor itself costs, with workers that do nothing: per micro-batch of 1F1B, and for a
// message there and back between two ranks.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <thread>

#include "harness/exec/executor.h"
#include "harness/exec/threads.h"
#include "harness/program/example_schedules.h"
#include "harness/program/lowering.h"

namespace sluice {
namespace {

class IdleWorker : public Worker {
 public:
  void begin_run(const Program&) override {}
  void begin_iteration(int) override {}
  void compute(const Instruction&) override {}
  Message take(const Instruction&) override { return {}; }
  void put(const Instruction&, Message) override {}
  Buffer gradients(StageId) override { return {nullptr, 0, ElementType::float32}; }
  void step(const Instruction&) override {}
  void end_run() override {}
};

// 1F1B, rank r = stage r, as baselines/one_f_one_b.cpp makes it.
Program one_f_one_b(int ranks, int microbatches) {
  return lower(example_1f1b(ranks, microbatches), chain(ranks), one_stage_per_rank(ranks), WeightRule{});
}

// Items are micro-batches through the whole pipe. The start of the threads is not counted.
void overhead_of_1f1b(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0)), microbatches = static_cast<int>(state.range(1));
  const bool traced = state.range(2) != 0;
  const Program program = one_f_one_b(ranks, microbatches);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int r = 0; r < ranks; ++r) workers.push_back(std::make_unique<IdleWorker>());
  const int iterations = traced ? 1 : 100;
  for (auto _ : state) {
    const auto transport = make_thread_transport(program);
    state.SetIterationTime(
        execute(program, *transport, workers, {.iterations = iterations, .traced_iteration = traced ? 0 : -1}).seconds);
  }
  state.SetItemsProcessed(state.iterations() * iterations * microbatches);
}
BENCHMARK(overhead_of_1f1b)
    ->ArgNames({"ranks", "microbatches", "traced"})
    ->ArgsProduct({{1, 2}, {8, 64}, {0}})
    ->Args({1, 4096, 1})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

// The time of an iteration is one message there and one back.
void ping_pong(benchmark::State& state) {
  Program program;
  program.ranks.resize(2);
  program.channels = {{Rank(0), Rank(1), 1}, {Rank(1), Rank(0), 1}};
  const auto transport = make_thread_transport(program);
  std::thread echo([&] {
    try {
      for (;;) transport->send(1, transport->receive(0));
    } catch (const TransportAborted&) {
    }
  });
  for (auto _ : state) {
    transport->send(0, {});
    benchmark::DoNotOptimize(transport->receive(1));
  }
  transport->abort();
  echo.join();
}
BENCHMARK(ping_pong)->UseRealTime();

void all_reduce(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  Program program;
  program.ranks.resize(2);
  program.placement.stages = {{Rank(0), Rank(1)}};
  const auto transport = make_thread_transport(program);
  std::vector<float> mine(count), others(count);
  std::thread member([&] {
    try {
      for (;;) transport->all_reduce(0, 1, others.data(), count, ElementType::float32);
    } catch (const TransportAborted&) {
    }
  });
  for (auto _ : state) transport->all_reduce(0, 0, mine.data(), count, ElementType::float32);
  transport->abort();
  member.join();
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(count * sizeof(float)));
}
BENCHMARK(all_reduce)->Arg(1)->Arg(1 << 20)->UseRealTime();

}  // namespace
}  // namespace sluice
