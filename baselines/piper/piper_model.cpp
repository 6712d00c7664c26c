#include "baselines/piper/piper_model.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "harness/plan/search.h"

namespace sluice {

namespace {

PiperChoice plain_choice(const LayerGroup& group, bool recompute) {
  // What a layer keeps is not in a cost graph; its outputs stand for it. Weights and gradients.
  // A stage that recomputes keeps what it receives (received_bytes), and all of the one micro-batch
  // that goes back through it.
  return {.seconds = group.seconds() + (recompute ? group.forward : 0),
          .parameters = group.gradients,
          .in_flight = recompute ? 0 : group.kept,
          .always = group.resident + (recompute ? group.kept : 0)};
}

PiperChoice choice_of(const PiperModel& model, const CostGraph& costs, std::size_t group, int number) {
  const int l = model.graph.groups[group].layers.front();
  const LayerCost& layer = costs.layers[l];
  const LayerVariant& v = layer.variants[number];
  PiperChoice choice{.variant = number,
                     .seconds = v.seconds.value,
                     .parameters = static_cast<double>(v.parameters.value),
                     .in_flight = static_cast<double>(v.in_flight.value),
                     .always = static_cast<double>(v.always.value)};
  for (const int e : model.in_edges[group]) {
    const auto input = std::ranges::find(layer.inputs, model.graph.edges[e].producer);
    const auto n = static_cast<std::size_t>(input - layer.inputs.begin());
    choice.in_sync.push_back(v.input_sync.empty() ? 0 : static_cast<double>(v.input_sync[n].value));
  }
  for (const int e : model.out_edges[group]) {
    const auto found = v.output_sync.find(model.graph.edges[e].consumer);
    choice.out_sync.push_back(found == v.output_sync.end() ? 0 : static_cast<double>(found->second.value));
  }
  return choice;
}

}  // namespace

PiperModel piper_model(const CostGraph& costs, const PiperOptions& options) {
  PiperModel model{.graph = layer_groups(costs)};
  const std::size_t n = model.graph.groups.size();
  model.in_edges.resize(n);
  model.out_edges.resize(n);
  for (std::size_t e = 0; e < model.graph.edges.size(); ++e) {
    model.out_edges[model.graph.edges[e].from].push_back(static_cast<int>(e));
    model.in_edges[model.graph.edges[e].to].push_back(static_cast<int>(e));
  }
  const auto variants = [&](std::size_t g) -> const std::vector<LayerVariant>& {
    static const std::vector<LayerVariant> none;
    const auto& layers = model.graph.groups[g].layers;
    return layers.size() == 1 ? costs.layers[layers[0]].variants : none;
  };
  std::set<int> tensors{1};
  bool has_variants = false;
  for (std::size_t g = 0; g < n; ++g)
    for (const LayerVariant& v : variants(g)) {
      has_variants = true;
      if (options.tensor_parallel && v.tensor <= options.devices) tensors.insert(v.tensor);
    }
  for (const int tensor : tensors) model.modes.push_back({.tensor = tensor});
  if (options.recompute && !has_variants) model.modes.insert(model.modes.begin() + 1, {.tensor = 1, .recompute = true});
  for (const auto& [tensor, recompute] : model.modes) {
    auto& of_groups = model.choices.emplace_back(n);
    for (std::size_t g = 0; g < n; ++g) {
      const auto& published = variants(g);
      for (std::size_t i = 0; i < published.size(); ++i) {
        if (published[i].tensor == tensor && (options.recompute || !published[i].recompute))
          of_groups[g].push_back(choice_of(model, costs, g, static_cast<int>(i)));
      }
      if (published.empty() && tensor == 1) {
        PiperChoice choice = plain_choice(model.graph.groups[g], recompute);
        choice.in_sync.resize(model.in_edges[g].size());
        choice.out_sync.resize(model.out_edges[g].size());
        of_groups[g].push_back(choice);
      }
    }
  }
  return model;
}

double received_bytes(const PiperModel& model, std::span<const int> edges) {
  std::map<int, double> values;
  for (const int e : edges) {
    const LayerGroupEdge& edge = model.graph.edges[e];
    double& bytes = values[edge.producer];
    bytes = std::max(bytes, edge.bytes);
  }
  double bytes = 0;
  for (const auto& [producer, of_value] : values) bytes += of_value;
  return bytes;
}

double piper_seconds(const CostGraph& costs, const PiperOptions& options, const std::vector<PiperStage>& stages) {
  const PiperModel model = piper_model(costs, options);
  std::vector<int> stage_of(costs.layers.size(), -1);
  int devices = 0, later = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const int l : stages[s].layers) stage_of[l] = static_cast<int>(s);
    devices += stages[s].data * stages[s].tensor;
    later += stages[s].data;
    if (options.microbatches % stages[s].data != 0) return kNever;
  }
  if (devices > options.devices || later > options.microbatches || stages.empty()) return kNever;
  double slowest = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const PiperStage& stage = stages[s];
    const auto mode = std::ranges::find_if(model.modes, [&](const PiperModel::Mode& m) {
      return m.tensor == stage.tensor && m.recompute == stage.recompute;
    });
    if (mode == model.modes.end()) return kNever;
    const auto& choices = model.choices[mode - model.modes.begin()];
    std::vector<int> incoming;
    const int y = (later + stage.data - 1) / stage.data;
    later -= stage.data;
    double compute = 0, bytes = 0, parameters = 0, memory = 0;
    for (std::size_t g = 0; g < model.graph.groups.size(); ++g) {
      const int l = model.graph.groups[g].layers.front();
      if (stage_of[l] != static_cast<int>(s)) continue;
      const auto place = std::ranges::find(stage.layers, l) - stage.layers.begin();
      const auto choice = std::ranges::find(choices[g], stage.variants[place], &PiperChoice::variant);
      if (choice == choices[g].end()) return kNever;
      compute += choice->seconds;
      parameters += choice->parameters;
      memory += choice->in_flight * y + choice->always;
      const auto cut = [&](const std::vector<int>& edges, const std::vector<double>& sync) {
        for (std::size_t i = 0; i < edges.size(); ++i) {
          const LayerGroupEdge& e = model.graph.edges[edges[i]];
          if (stage_of[e.producer] != stage_of[e.consumer]) bytes += 2 * (e.bytes + sync[i]);
        }
      };
      cut(model.in_edges[g], choice->in_sync);
      cut(model.out_edges[g], choice->out_sync);
      for (const int e : model.in_edges[g]) {
        const int producer = model.graph.edges[e].producer;
        if (stage_of[producer] != static_cast<int>(s)) incoming.push_back(e);
      }
    }
    if (stage.recompute) memory += y * received_bytes(model, incoming);
    if (memory > options.memory) return kNever;
    const double d = stage.data;
    slowest = std::max(
        slowest, compute / d + (bytes / d + 4 * (d - 1) * parameters / d / options.microbatches) / options.bandwidth);
  }
  return slowest;
}

}  // namespace sluice
