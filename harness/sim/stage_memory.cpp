#include "harness/sim/stage_memory.h"

#include <algorithm>

namespace sluice {

static StageMemory memory_of_layers(const ModelGraph& model, std::span<const Shape> shapes, std::span<const int> layers,
                                    std::int64_t samples, int optimizer_tensors) {
  Bytes weights;
  for (const int l : layers) weights += Bytes(4 * parameter_count(model.layers[static_cast<std::size_t>(l)]));
  const StageStash stash = stage_stash(model, shapes, layers, samples);
  return {.weights = weights,
          .gradients = weights,
          .optimizer = weights * optimizer_tensors,
          .stash = stash.forward,
          .weight_stash = stash.weight,
          .input = Bytes(0),
          .interface = interface_values(model, shapes, layers, samples)};
}

std::vector<StageMemory> stage_memory(const ModelGraph& model, const Plan& plan, std::int64_t micro_batch,
                                      const OptimizerSpec& optimizer, const WeightRule& rule) {
  const std::vector<Shape> shapes = model.shapes();
  const std::vector<StageInterface> between =
      interfaces(model, stage_of_layers(plan, model.layers.size()), static_cast<int>(plan.stages.size()));
  std::vector<StageMemory> result;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const PlanStage& stage = plan.stages[s];
    const std::int64_t samples = stage.micros_per_op * micro_batch;
    StageMemory m = memory_of_layers(model, shapes, stage.layers, samples,
                                     optimizer.state_tensors() + delta_tensors(optimizer, rule, StageId(s)));
    for (const int producer : between[s].receives)
      if (producer >= 0) m.input += output_bytes(model, shapes, producer, samples);
    result.push_back(m);
  }
  return result;
}

// What a layer of a cost graph adds to its stage. variant: the one that the plan chose; null: as measured.
static void add_layer(StageMemory& memory, const LayerCost& layer, const OptimizerSpec& optimizer,
                      const LayerVariant* variant) {
  if (!variant) {
    memory.weights += layer.parameters;
    memory.gradients += layer.parameters;
    memory.optimizer += layer.parameters * optimizer.state_tensors();
    memory.stash += layer.output;
    return;
  }
  // As published: what is always there beyond the weights is not told apart.
  const Bytes weights = std::min(variant->parameters, variant->always);
  memory.weights += weights;
  memory.gradients += variant->always - weights;
  memory.stash += variant->in_flight;
}

std::vector<StageMemory> stage_memory(const CostGraph& costs, const Plan& plan, const OptimizerSpec& optimizer) {
  std::vector<StageMemory> result;
  const StageGraph graph = stage_graph(plan, costs);
  for (const PlanStage& stage : plan.stages) {
    StageMemory memory;
    const StageId id(result.size());
    for (const StageId before : graph.predecessors[id.index()]) memory.input += edge_bytes(plan, costs, before, id);
    for (std::size_t i = 0; i < stage.layers.size(); ++i) {
      const LayerCost& layer = costs.layers[static_cast<std::size_t>(stage.layers[i])];
      const bool as_measured = stage.variants.empty() || layer.variants.empty();
      add_layer(memory, layer, optimizer,
                as_measured ? nullptr : &layer.variants[static_cast<std::size_t>(stage.variants[i])]);
    }
    result.push_back(memory);
  }
  return result;
}

}  // namespace sluice
