#include "harness/sim/stage_memory.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "harness/model/sequence_chunks.h"
#include "harness/program/messages.h"

namespace sluice {

static StageMemory memory_of_layers(const ModelGraph& model, std::span<const Shape> shapes, const StageStashes& stashes,
                                    std::span<const int> layers, std::int64_t samples, const OptimizerSpec& optimizer,
                                    int delta_tensors, const Storage& storage) {
  std::int64_t parameters = 0, frozen = 0, state = 0;
  for (const int l : layers) {
    parameters += trained_parameter_count(model.layers[l]);
    if (model.layers[l].frozen) frozen += parameter_count(model.layers[l]);
    state += state_elements(optimizer, model, l);
  }
  const StageStash stash = stashes.of(layers).of(samples);
  return {.weights = parameters * storage.weight,
          .gradients = parameters * storage.gradient,
          .optimizer = (state + delta_tensors * parameters) * storage.state + parameters * storage.master,
          .stash = stash.forward,
          .weight_stash = stash.weight,
          .input = Bytes(0),
          .interface = interface_values(model, shapes, layers, samples, storage),
          .weight_element = storage.weight,
          .frozen = frozen * storage.weight};
}

// Of the stage's attention layers, for `positions` positions of each sample.
static Bytes key_value_gradients(const ModelGraph& model, std::span<const int> layers, std::int64_t positions,
                                 const Storage& storage) {
  const std::vector<bool> no_gradient = without_gradient(model);
  Bytes bytes;
  for (const int l : layers)
    if (const auto* attention = std::get_if<Attention>(&model.layers[l].kind); attention && !no_gradient[l])
      bytes += 2 * attention->kv_width() * positions * storage.activation;
  return bytes;
}

// What attention layers keep that later chunks read and no backward, of chunks of `positions` positions of each sample.
static Bytes kept_for_later_chunks(const ModelGraph& model, std::span<const int> layers, std::int64_t positions,
                                   std::int64_t samples, const Storage& storage) {
  const std::vector<bool> no_gradient = without_gradient(model);
  Bytes bytes;
  for (const int l : layers) {
    const auto* attention = std::get_if<Attention>(&model.layers[l].kind);
    if (!attention || !no_gradient[l]) continue;
    const Shape input{positions, attention->width};
    bytes += samples * stash(model.layers[l], {&input, 1}, storage).extra;
  }
  return bytes;
}

static void add_sequence_chunks(std::vector<StageMemory>& stages, const ModelGraph& model, const Plan& plan,
                                std::int64_t micro_batch, const OptimizerSpec& optimizer, const WeightRule& rule,
                                const Storage& storage) {
  Plan whole = plan;
  whole.sequence_cut.clear();
  for (std::size_t c = 0; c + 1 < plan.sequence_cut.size(); ++c) {
    const std::int64_t length = plan.sequence_cut[c + 1] - plan.sequence_cut[c];
    std::vector<StageMemory> of_chunk =
        stage_memory(with_sequence_length(model, length), whole, micro_batch, optimizer, rule, storage);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      of_chunk[s].key_value_gradients =
          key_value_gradients(model, plan.stages[s].layers, length * micro_batch, storage);
      of_chunk[s].stash += kept_for_later_chunks(model, plan.stages[s].layers, length, micro_batch, storage);
      stages[s].sequence_chunks.push_back(of_chunk[s]);
    }
  }
}

std::vector<StageMemory> stage_memory(const ModelGraph& model, const Plan& plan, std::int64_t micro_batch,
                                      const OptimizerSpec& optimizer, const WeightRule& rule, const Storage& storage) {
  const std::vector<Shape> shapes = model.shapes();
  const StageStashes stashes(model, shapes, storage);
  const std::vector<StageInterface> between =
      interfaces(model, stage_of_layers(plan, model.layers.size()), static_cast<int>(plan.stages.size()));
  std::vector<StageMemory> result;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const PlanStage& stage = plan.stages[s];
    const std::int64_t samples = stage.microbatches_per_op * micro_batch;
    StageMemory m = memory_of_layers(model, shapes, stashes, stage.layers, samples, optimizer,
                                     delta_tensors(optimizer, rule, StageId(s)), storage);
    for (const int producer : between[s].receives)
      if (producer >= 0) m.input += output_bytes(model, shapes, producer, samples, storage);
    result.push_back(m);
  }
  if (!plan.sequence_cut.empty()) add_sequence_chunks(result, model, plan, micro_batch, optimizer, rule, storage);
  return result;
}

// What a layer of the costs adds to its stage. variant: the one that the plan chose; null: as measured.
static void add_layer(StageMemory& memory, const CostGraph& costs, const LayerCost& layer,
                      const OptimizerSpec& optimizer, const LayerVariant* variant) {
  if (!variant) {
    const Storage& storage = costs.storage;
    const Bytes of_optimizer = optimizer.state_tensors() * storage.state + storage.master;  // of a parameter
    memory.weights += layer.trained();
    memory.frozen += layer.frozen;
    memory.gradients += costs.gradients(layer.trained());
    memory.optimizer += layer.trained() * of_optimizer.value / storage.weight.value;
    memory.stash += layer.kept();
    memory.weight_stash += layer.weight_stash.value_or(Bytes(0));
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
    StageMemory memory{.weight_element = costs.storage.weight};
    const StageId id(result.size());
    for (const StageId before : graph.predecessors[id.index()]) memory.input += edge_bytes(plan, costs, before, id);
    for (std::size_t i = 0; i < stage.layers.size(); ++i) {
      const LayerCost& layer = costs.layers[stage.layers[i]];
      const bool as_measured = stage.variants.empty() || layer.variants.empty();
      add_layer(memory, costs, layer, optimizer, as_measured ? nullptr : &layer.variants[stage.variants[i]]);
    }
    result.push_back(memory);
  }
  return result;
}

// bytes(from, to): of a micro-batch on that edge.
static void add_waiting(std::vector<StageMemory>& stages, const StageGraph& graph, int queue,
                        const std::function<Bytes(StageId, StageId)>& bytes) {
  for (std::size_t s = 0; s < graph.size(); ++s)
    for (const StageId t : graph.successors[s]) {
      const int room = queue_room(graph, StageId(s), t, queue);
      const Bytes message = bytes(StageId(s), t) * microbatches_per_message(graph, StageId(s), t);
      stages[s].waiting += message * (room / 2);
      stages[t.index()].waiting += message * (room - room / 2);
    }
}

std::vector<StageMemory> inference_memory(const ModelGraph& model, const Plan& plan, std::int64_t micro_batch,
                                          int queue, const Storage& storage) {
  const std::vector<Shape> shapes = model.shapes();
  const std::vector<int> stage_of = stage_of_layers(plan, model.layers.size());
  std::vector<StageMemory> result;
  for (const PlanStage& stage : plan.stages) {
    StageMemory& memory = result.emplace_back();
    for (const int l : stage.layers) memory.weights += parameter_count(model.layers[l]) * storage.weight;
    memory.live = live_bytes(model, shapes, stage.layers, stage.microbatches_per_op * micro_batch, storage);
  }
  std::vector<std::vector<int>> inputs;
  for (const LayerSpec& layer : model.layers) inputs.push_back(layer.inputs);
  const auto bytes = [&](StageId from, StageId to) {
    std::set<int> sent;
    for (const int l : plan.stages[to.index()].layers)
      for (const int input : inputs[l])
        if (input >= 0 && stage_of[input] == from.value) sent.insert(input);
    Bytes sum;
    for (const int value : sent) sum += output_bytes(model, shapes, value, micro_batch, storage);
    return sum;
  };
  StageGraph graph = stage_graph(static_cast<int>(plan.stages.size()), stage_edges(plan, inputs), "plan");
  for (const PlanStage& stage : plan.stages) graph.microbatches_per_op.push_back(stage.microbatches_per_op);
  add_waiting(result, graph, queue, bytes);
  return result;
}

std::vector<StageMemory> inference_memory(const CostGraph& costs, const Plan& plan, int queue) {
  std::vector<StageMemory> result;
  const StageGraph graph = stage_graph(plan, costs);
  for (const PlanStage& stage : plan.stages) {
    StageMemory& memory = result.emplace_back();
    for (const int l : stage.layers) {
      const LayerCost& layer = costs.layers[l];
      memory.weights += layer.parameters;
      Bytes live = layer.output;
      for (const int input : layer.inputs)
        if (input >= 0) live += costs.layers[input].output;
      memory.live = std::max(memory.live, live * stage.microbatches_per_op);
    }
  }
  add_waiting(result, graph, queue, [&](StageId from, StageId to) { return edge_bytes(plan, costs, from, to); });
  return result;
}

namespace {

// Passes of layers one after the other: the most that they hold at a time.
class Sequence {
 public:
  void add(const PassMeasurement& pass) {
    most_ = std::max(most_, now_ + pass.peak);
    now_ += pass.left;
  }
  Bytes most() const { return most_; }

 private:
  Bytes now_{0}, most_{0};
};

Temporaries temporaries_of(const std::vector<int>& layers, const CostGraph& costs) {
  Sequence forward, unstashed, input_gradient, backward, weight_gradient;
  Bytes step;
  const auto measured = [&](int l) { return costs.layers[l].measured.value_or(LayerMeasurement{}); };
  for (const int l : layers) {
    forward.add(measured(l).forward);
    unstashed.add(measured(l).unstashed);
    step += measured(l).update.peak;
  }
  for (auto l = layers.rbegin(); l != layers.rend(); ++l) {
    input_gradient.add(measured(*l).input_gradient);
    backward.add(measured(*l).input_gradient);
  }
  for (auto l = layers.rbegin(); l != layers.rend(); ++l) {
    weight_gradient.add(measured(*l).weight_gradient);
    backward.add(measured(*l).weight_gradient);
  }
  return {.forward = forward.most(),
          .unstashed = unstashed.most(),
          .backward = backward.most(),
          .input_gradient = input_gradient.most(),
          .weight_gradient = weight_gradient.most(),
          .step = step};
}

}  // namespace

void add_temporaries(std::vector<StageMemory>& stages, const Plan& plan, const CostGraph& costs) {
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const int microbatches = plan.stages[s].microbatches_per_op;
    const Temporaries whole = microbatches == 1
                                  ? temporaries_of(plan.stages[s].layers, costs)
                                  : temporaries_of(plan.stages[s].layers, grouped_costs(costs, microbatches));
    stages[s].temporaries = whole;
    for (std::size_t c = 0; c < stages[s].sequence_chunks.size(); ++c) {
      Temporaries& part = stages[s].sequence_chunks[c].temporaries = whole;
      const double positions = share_of_positions(plan.sequence_cut, c);
      for (Bytes* bytes : {&part.forward, &part.unstashed, &part.backward, &part.input_gradient, &part.weight_gradient})
        *bytes = Bytes(std::llround(static_cast<double>(bytes->value) * positions));
    }
  }
}

}  // namespace sluice
