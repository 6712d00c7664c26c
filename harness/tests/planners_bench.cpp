// How long the planners take on published inputs, one core. "authors_seconds" is what the authors' own program took on
// the same input and machine class; "times_faster" is the ratio.
#include <benchmark/benchmark.h>
#include <sluice_build.h>

#include <ctime>

#include "baselines/dapple/dapple_search.h"
#include "baselines/pipedream/pipedream_partition.h"
#include "baselines/piper/piper_search.h"
#include "harness/pipeline/system.h"
#include "workloads/profiles/profile.h"

namespace sluice {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

// Runs `search` for every iteration and compares its mean time with the authors'. Processor time:
// the searches have one thread, and so had theirs; a busy machine then does not count.
template <class Search>
void measure(benchmark::State& state, double authors_seconds, Search search) {
  double seconds = 0;
  for (auto _ : state) {
    const std::clock_t begin = std::clock();
    benchmark::DoNotOptimize(search());
    seconds += static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  }
  if (authors_seconds > 0) {
    state.counters["authors_seconds"] = authors_seconds;
    state.counters["times_faster"] = authors_seconds * static_cast<double>(state.iterations()) / seconds;
  }
}

void piper(benchmark::State& state, const std::string& input, int devices, int microbatches, double memory,
           double authors_seconds) {
  const std::string file = published_profile_path("piper/" + input + ".json");
  const CostGraph costs = load_profile(file, ProfileUnits::published).costs;
  const PiperOptions options{
      .devices = devices, .microbatches = microbatches, .bandwidth = 25 * kGiB, .memory = memory * kGiB};
  measure(state, authors_seconds, [&] { return piper_search(costs, options).seconds; });
}
BENCHMARK_CAPTURE(piper, bert32_k8_N128, "bert32a100", 8, 128, 8, 0.07);
BENCHMARK_CAPTURE(piper, bert32_k64_N1920, "bert32a100", 64, 1920, 8, 0.39);
BENCHMARK_CAPTURE(piper, bert32_k64_N512_2GiB, "bert32a100", 64, 512, 2, 0.29);
BENCHMARK_CAPTURE(piper, bert32_k512_N1920, "bert32a100", 512, 1920, 8, 6.9);
BENCHMARK_CAPTURE(piper, bert32_k2048_N1920, "bert32a100", 2048, 1920, 8, 0);
BENCHMARK_CAPTURE(piper, resnet_k8_8GiB, "resnet", 8, 7680, 8, 6.514928);
BENCHMARK_CAPTURE(piper, resnet_k16_4GiB, "resnet", 16, 7680, 4, 7.833978);
BENCHMARK_CAPTURE(piper, gnmt_k8_8GiB, "gnmt", 8, 256, 8, 0)->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(piper, gnmt_k16_2GiB, "gnmt", 16, 256, 2, 0)->Unit(benchmark::kSecond);

void pipedream(benchmark::State& state, const std::string& input, std::vector<MachineLevel> levels,
               double authors_seconds) {
  const std::string file = published_profile_path("pipedream/" + input + ".graph.txt");
  const CostGraph costs = load_profile(file).costs;
  measure(state, authors_seconds, [&] {
    return pipedream_partition(antichain_states(layer_groups(costs), 1000),
                               {.form = PipeDreamOptions::Form::code, .levels = levels})
        .seconds;
  });
}
const std::vector<MachineLevel> kFour = {{4, 1e9}}, kFourByFour = {{4, 12e9}, {4, 1.25e9}},
                                kEightByTwo = {{8, 30e9}, {2, 3.125e9}};
BENCHMARK_CAPTURE(pipedream, vgg16_8x2, "vgg16", kEightByTwo, 6.3);
BENCHMARK_CAPTURE(pipedream, gnmt_4x4, "gnmt", kFourByFour, 8.7);
BENCHMARK_CAPTURE(pipedream, resnet50_4, "resnet50", kFour, 4.3);
BENCHMARK_CAPTURE(pipedream, resnet50_4x4, "resnet50", kFourByFour, 197);
BENCHMARK_CAPTURE(pipedream, resnet50_8x2, "resnet50", kEightByTwo, 0);

void dapple(benchmark::State& state, const std::string& input, const std::string& cluster_file, int devices) {
  const std::string file = published_profile_path("pipedream/" + input + ".graph.txt");
  const LayerGroupGraph graph = layer_groups(load_profile(file).costs);
  const Cluster cluster = load_cluster(cluster_file, SLUICE_SOURCE_DIR "/workloads/clusters");
  Cluster roomy = cluster;
  for (Device& device : roomy.devices) device.memory = GiB(900);
  measure(state, 0,
          [&] { return dapple_search(graph, roomy, {.devices = devices, .microbatches = 32}).best.latency.seconds; });
}
BENCHMARK_CAPTURE(dapple, vgg16_2x8, "vgg16", "pipedream_b", 16);
BENCHMARK_CAPTURE(dapple, gnmt_large_2x8, "gnmt_large", "pipedream_b", 16);
BENCHMARK_CAPTURE(dapple, resnet50_2x8, "resnet50", "pipedream_b", 16);

}  // namespace
}  // namespace sluice
