#include "harness/plan/uniform_chain.h"

#include <algorithm>
#include <utility>

#include "harness/base/index.h"
#include "harness/plan/make_plan.h"

namespace sluice {

StageCost of_samples(const StageCost& one, std::int64_t samples) {
  StageCost cost = one;
  for (Seconds* s : {&cost.forward, &cost.input_gradient, &cost.weight_gradient})
    *s = *s * static_cast<double>(samples);
  return cost;
}

UniformChain uniform_chain(const System& system, const Options& options, const Cluster& cluster, int ranks,
                           int microbatches, const StageCost& one, Seconds latency, const MicrobatchSizes& sizes) {
  const std::int64_t largest = sizes.differ() ? sizes.distinct().back() : 1;
  const StageCost stage = of_samples(one, largest);
  CostGraph layers{.model = "uniform chain", .source = "given", .device = "unit", .micro_batch = largest, .layers = {}};
  std::vector<int> word_slices;
  for (int i = 0; i < ranks * stages_per_rank(system, options); ++i) {
    if (system.divides_words) word_slices.push_back(i < ranks ? -1 : i - ranks);
    layers.layers.push_back({.name = "stage " + std::to_string(i),
                             .inputs = {system.divides_words ? std::min(i, ranks) - 1 : i - 1},
                             .forward = stage.forward,
                             .input_gradient = stage.input_gradient,
                             .weight_gradient = stage.weight_gradient,
                             .update = Seconds(0),
                             .parameters = Bytes(0),
                             .output = Bytes(0)});
  }
  Problem problem{layers, cluster, ranks, sizes.differ() ? sizes.batch() : microbatches, microbatches, {}};
  problem.sizes = sizes;
  problem.word_slices = word_slices;
  PlannedPipeline planned = make_plan(system, problem, options);
  UniformChain result{.plan = std::move(planned.plan), .devices = {}, .problem = {}};
  const RankMap map = ranks_of(result.plan);
  result.devices = map.devices;
  result.problem = {.graph = stage_graph(result.plan, layers),
                    .placement = map.placement,
                    .ranks = count_of(map.devices),
                    .microbatches = microbatches,
                    .costs = std::vector<StageCost>(result.plan.stages.size(), stage),
                    .latency = latency,
                    .microbatches_per_update = system.accumulates ? microbatches : 1,
                    .order = std::move(planned.order),
                    .sequence_chunks = result.plan.sequence.count,
                    .sizes = sizes};
  return result;
}

}  // namespace sluice
