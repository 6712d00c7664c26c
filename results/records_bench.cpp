// How long reading, comparing and exporting take over 10^2 to 10^5 records, and that they grow linearly: a benchmark
// fails where a record of the largest file takes kMaxGrowth times as long as one of the file of 10^3, if that ran.
//
//   build/results_bench --benchmark_filter=records
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "results/compare.h"
#include "results/export.h"
#include "results/store.h"

namespace sluice {
namespace {

constexpr double kMaxGrowth = 2.5;
constexpr int kRanks = 8;

// The n-th record of a simulated sweep: 8 systems at 8 numbers of micro-batches for each workload, without timelines.
Record nth(std::int64_t n) {
  static const std::vector<std::string> systems = {"chimera", "dualpipe", "fsdp",        "gpipe",
                                                   "hanayo",  "zeropp",   "one_f_one_b", "single_device"};
  const std::int64_t workload = n / 64, power = n / 8 % 8;
  Record r;
  r.digest = fmt::format("{:016x}", n);
  r.system = systems[static_cast<std::size_t>(n % 8)];
  r.workload = fmt::format("workload_{}", workload);
  r.workload_facts = {.title = r.workload, .metric = "loss", .steps = 12};
  r.work = {.tokens = 1024, .flop = 1e12, .devices = kRanks, .peak_flops = 1e14};
  r.options = {{"recompute", "no"}, {"cuts", "messages"}, {"weight_gradient", "per_microbatch"}};
  r.optimizer = OptimizerSpec{};
  r.cluster = "flat:8";
  r.clock = Clock::virtual_clock;
  r.cost_source = "analytic";
  r.transport = "none";
  r.device = "flat device";
  r.ranks = kRanks;
  r.batch = r.samples_per_step = 256;
  r.microbatches = 1 << power;
  r.seed = 1;
  r.warmup_steps = 1;
  r.step_seconds.assign(12, 0.123456789 + 1e-6 * static_cast<double>(n % 997));
  PlanDescription plan;
  plan.system = r.system;
  plan.micro_batch = r.batch / r.microbatches;
  plan.objective_name = "slowest stage";
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::int64_t activations = (kRanks - rank) * (n % 1009 + 1) * 1'000'003;
    r.peak_bytes.push_back(
        {.total = 3'000'000'000 + activations, .weights = 3'000'000'000, .activations = activations});
    PlanDescription::Stage& stage = plan.stages.emplace_back();
    stage.devices = {rank};
    stage.layers.emplace();
    for (int layer = 0; layer < 12; ++layer) stage.layers->push_back(12 * rank + layer);
    if (rank > 0) plan.edges.emplace_back(rank - 1, rank);
  }
  r.plan = plan;
  const std::vector<int> of_ranks(kRanks, 1);
  r.theory = {.in_flight = of_ranks, .weight_versions = of_ranks, .staleness = std::vector<int>(kRanks, 0)};
  r.observed.bubble_ratio = 0.1;
  r.observed.in_flight = r.observed.weight_versions = of_ranks;
  r.observed.sent_bytes = {.messages = std::vector<std::int64_t>(kRanks, 4'294'967'296)};
  return r;
}

// A file of the first n, which stays until the program ends.
const std::string& file_of(std::int64_t n) {
  struct File {
    std::string path;
    ~File() { std::filesystem::remove(path); }
  };
  static std::map<std::int64_t, File> files;
  File& file = files[n];
  if (file.path.empty()) {
    file.path = (std::filesystem::temp_directory_path() / fmt::format("records_bench.{}.{}", ::getpid(), n)).string();
    std::ofstream out(file.path);
    for (std::int64_t k = 0; k < n; ++k) out << to_json(nth(k)).dump() << '\n';
  }
  return file.path;
}

template <class Work>
void over_records(benchmark::State& state, const Work& work) {
  static double seconds_at_thousand = 0;  // of a record
  const std::int64_t n = state.range(0);
  file_of(n);
  double least = 1e9;
  for (auto _ : state) {
    const std::clock_t begin = std::clock();  // of all threads: other programs do not count
    work(n);
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  const double of_record = least / static_cast<double>(n);
  if (n == 1000) seconds_at_thousand = of_record;
  if (n > 1000 && seconds_at_thousand > 0 && of_record > kMaxGrowth * seconds_at_thousand)
    state.SkipWithError(fmt::format("not linear: {:.3g} us a record, {:.3g} us in a file of 1,000", 1e6 * of_record,
                                    1e6 * seconds_at_thousand)
                            .c_str());
  state.SetItemsProcessed(state.iterations() * n);
  state.SetComplexityN(n);
}

void records_read(benchmark::State& state) {
  over_records(state, [](std::int64_t n) { benchmark::DoNotOptimize(read_records(file_of(n), RecordUse::figures)); });
}

void records_compare(benchmark::State& state) {
  over_records(state, [](std::int64_t n) {
    benchmark::DoNotOptimize(to_table(compare(read_records(file_of(n), RecordUse::figures).records)));
  });
}

void records_export(benchmark::State& state) {
  over_records(state, [](std::int64_t n) {
    benchmark::DoNotOptimize(to_csv(records_table(read_records(file_of(n), RecordUse::figures).records)));
  });
}

#define OVER_RECORDS(name)            \
  BENCHMARK(name)                     \
      ->RangeMultiplier(10)           \
      ->Range(100, 100'000)           \
      ->Unit(benchmark::kMillisecond) \
      ->MeasureProcessCPUTime()       \
      ->Complexity(benchmark::oN)
OVER_RECORDS(records_read);
OVER_RECORDS(records_compare);
OVER_RECORDS(records_export);

}  // namespace
}  // namespace sluice
