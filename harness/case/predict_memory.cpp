#include "harness/case/predict_memory.h"

#include <algorithm>
#include <map>
#include <memory>

namespace sluice {

// Of training, with the costs of micro-batches of one size.
static std::vector<StageMemory> memory_of_size(const Prepared& p, const CostGraph& costs,
                                               const OptimizerSpec& optimizer, const WeightRule& rule) {
  const ModelGraph& model = running_model(p);
  if (model.layers.empty()) return stage_memory(costs, p.plan, optimizer);
  std::vector<StageMemory> stages = stage_memory(model, p.plan, costs.micro_batch, optimizer, rule, p.storage);
  add_temporaries(stages, p.plan, costs);
  return stages;
}

std::vector<StageMemory> stage_memory(const Prepared& p, const OptimizerSpec& optimizer, const WeightRule& rule) {
  const ModelGraph& model = running_model(p);
  if (p.inference)
    return model.layers.empty() ? inference_memory(p.costs, p.plan, p.queue)
                                : inference_memory(model, p.plan, p.micro_batch, p.queue, p.storage);
  std::vector<StageMemory> stages = memory_of_size(p, p.costs, optimizer, rule);
  for (const CostGraph& costs : p.size_costs) {
    const std::vector<StageMemory> of_size = memory_of_size(p, costs, optimizer, rule);
    for (std::size_t s = 0; s < stages.size(); ++s) stages[s].of_size.push_back(of_size[s]);
  }
  if (p.batched_weight_gradients)
    for (StageMemory& stage : stages) {
      stage.batched_microbatches = std::max(1, p.microbatches_per_update / p.replicas.count);
      for (StageMemory& chunk : stage.sequence_chunks) chunk.batched_microbatches = stage.batched_microbatches;
    }
  return stages;
}

// Whether a stage of these layers holds a copy of a weight for layer `l`, the first of them that uses it.
static bool needs_copy(const ModelGraph& model, int l, std::span<const int> layers) {
  const int owner = model.layers[l].tied_to;
  return owner >= 0 && std::ranges::none_of(layers, [&](int other) {
           return other == owner || (other < l && model.layers[other].tied_to == owner);
         });
}

std::function<Problem::Footprint(std::span<const int>)> planned_footprint(const Prepared& p,
                                                                          const OptimizerSpec& optimizer) {
  const ModelGraph& model = planned_model(p);
  if (model.layers.empty()) return {};
  const Storage& s = p.storage;
  std::vector<Bytes> lasting;  // of each layer: weights, gradients, the optimizer's
  for (int l = 0; l < static_cast<int>(model.layers.size()); ++l) {
    const Bytes of_parameter = p.inference || model.layers[l].frozen ? s.weight : s.weight + s.gradient + s.master;
    lasting.push_back(parameter_count(model.layers[l]) * of_parameter);
    if (!p.inference) lasting.back() += state_elements(optimizer, model, l) * s.state;
  }
  const std::vector<Shape> shapes = model.shapes();
  const auto count = [lasting, stashes = StageStashes(model, shapes, s), inference = p.inference, &model, shapes,
                      storage = s](std::span<const int> layers) {
    Bytes always;
    for (const int l : layers) {
      always += lasting[l];
      if (needs_copy(model, l, layers)) always += lasting[model.layers[l].tied_to];
    }
    if (inference) return Problem::Footprint{always, Bytes(0), live_bytes(model, shapes, layers, 1, storage)};
    const GrowingStash stash = stashes.of(layers);
    return Problem::Footprint{always, stash.per_micro_batch.forward, stash.per_sample.forward};
  };
  // Planners ask for the same ranges of layers again and again.
  const auto known = std::make_shared<std::map<std::pair<int, int>, Problem::Footprint>>();
  return [count, known](std::span<const int> layers) {
    if (layers.empty() || layers.back() - layers.front() + 1 != std::ssize(layers) || !std::ranges::is_sorted(layers))
      return count(layers);
    const auto [found, fresh] = known->try_emplace({layers.front(), layers.back()});
    if (fresh) found->second = count(layers);
    return found->second;
  };
}

std::string over_memory(const Prepared& p, const std::vector<RankMemory>& memory) {
  for (std::size_t r = 0; r < memory.size(); ++r) {
    const Device& device = p.cluster.devices[p.ranks.devices[r].index()];
    if (memory[r].peak.total() > device.memory)
      return "rank " + std::to_string(r) + " needs " + to_text(memory[r].peak.total()) + " at its peak, its device '" +
             device.name + "' has " + to_text(device.memory);
  }
  return "";
}

}  // namespace sluice
