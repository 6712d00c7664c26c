#include "harness/plan/piper_model.h"
#include "harness/plan/search.h"

#include <algorithm>
#include <limits>

namespace sluice {

namespace {

PiperChoice plain_choice(const Unit& unit) {
  // What a layer keeps is not in a cost graph; its outputs stand for it. Weights and gradients.
  return {.seconds = unit.seconds(),
          .parameters = unit.parameters,
          .in_flight = unit.kept,
          .always = 2 * unit.parameters};
}

PiperChoice choice_of(const PiperModel& model, const CostGraph& costs, std::size_t unit,
                      int number) {
  const int l = model.graph.units[unit].layers.front();
  const LayerCost& layer = costs.layers[static_cast<std::size_t>(l)];
  const LayerVariant& v = layer.variants[static_cast<std::size_t>(number)];
  PiperChoice choice{.variant = number,
                     .seconds = v.seconds.value,
                     .parameters = static_cast<double>(v.parameters.value),
                     .in_flight = static_cast<double>(v.in_flight.value),
                     .always = static_cast<double>(v.always.value)};
  for (const int e : model.in_edges[unit]) {
    const auto input =
        std::ranges::find(layer.inputs, model.graph.edges[static_cast<std::size_t>(e)].producer);
    const auto n = static_cast<std::size_t>(input - layer.inputs.begin());
    choice.in_sync.push_back(v.input_sync.empty() ? 0 : static_cast<double>(v.input_sync[n].value));
  }
  for (const int e : model.out_edges[unit]) {
    const auto found = v.output_sync.find(model.graph.edges[static_cast<std::size_t>(e)].consumer);
    choice.out_sync.push_back(
        found == v.output_sync.end() ? 0 : static_cast<double>(found->second.value));
  }
  return choice;
}

}  // namespace

PiperModel piper_model(const CostGraph& costs, const PiperOptions& options) {
  PiperModel model{.graph = units_of(costs)};
  const std::size_t n = model.graph.units.size();
  model.in_edges.resize(n);
  model.out_edges.resize(n);
  for (std::size_t e = 0; e < model.graph.edges.size(); ++e) {
    model.out_edges[static_cast<std::size_t>(model.graph.edges[e].from)].push_back(
        static_cast<int>(e));
    model.in_edges[static_cast<std::size_t>(model.graph.edges[e].to)].push_back(
        static_cast<int>(e));
  }
  const auto variants = [&](std::size_t u) -> const std::vector<LayerVariant>& {
    static const std::vector<LayerVariant> none;
    const auto& layers = model.graph.units[u].layers;
    return layers.size() == 1 ? costs.layers[static_cast<std::size_t>(layers[0])].variants : none;
  };
  model.tensors = {1};
  for (std::size_t u = 0; u < n; ++u)
    for (const LayerVariant& v : variants(u))
      if (options.tensor_parallel && v.tensor <= options.devices) model.tensors.push_back(v.tensor);
  std::ranges::sort(model.tensors);
  model.tensors.erase(std::ranges::unique(model.tensors).begin(), model.tensors.end());
  for (const int tensor : model.tensors) {
    auto& of_units = model.choices.emplace_back(n);
    for (std::size_t u = 0; u < n; ++u) {
      const auto& published = variants(u);
      for (std::size_t i = 0; i < published.size(); ++i) {
        const bool recomputes = published[i].id.find("recomp") != std::string::npos;
        if (published[i].tensor == tensor && (options.recompute || !recomputes))
          of_units[u].push_back(choice_of(model, costs, u, static_cast<int>(i)));
      }
      if (published.empty() && tensor == 1) {
        PiperChoice choice = plain_choice(model.graph.units[u]);
        choice.in_sync.resize(model.in_edges[u].size());
        choice.out_sync.resize(model.out_edges[u].size());
        of_units[u].push_back(choice);
      }
    }
  }
  return model;
}

double piper_seconds(const CostGraph& costs, const PiperOptions& options,
                     const std::vector<PiperStage>& stages) {
  const PiperModel model = piper_model(costs, options);
  std::vector<int> stage_of(costs.layers.size(), -1);
  int devices = 0, later = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const int l : stages[s].layers)
      stage_of[static_cast<std::size_t>(l)] = static_cast<int>(s);
    devices += stages[s].data * stages[s].tensor;
    later += stages[s].data;
    if (options.microbatches % stages[s].data != 0) return kNever;
  }
  if (devices > options.devices || later > options.microbatches || stages.empty()) return kNever;
  double slowest = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const PiperStage& stage = stages[s];
    const auto t = std::ranges::find(model.tensors, stage.tensor);
    if (t == model.tensors.end()) return kNever;
    const auto& choices = model.choices[static_cast<std::size_t>(t - model.tensors.begin())];
    const int y = (later + stage.data - 1) / stage.data;
    later -= stage.data;
    double compute = 0, bytes = 0, parameters = 0, memory = 0;
    for (std::size_t u = 0; u < model.graph.units.size(); ++u) {
      const int l = model.graph.units[u].layers.front();
      if (stage_of[static_cast<std::size_t>(l)] != static_cast<int>(s)) continue;
      const auto place = std::ranges::find(stage.layers, l) - stage.layers.begin();
      const auto choice = std::ranges::find(
          choices[u], stage.variants[static_cast<std::size_t>(place)], &PiperChoice::variant);
      if (choice == choices[u].end()) return kNever;
      compute += choice->seconds;
      parameters += choice->parameters;
      memory += choice->in_flight * y + choice->always;
      const auto cut = [&](const std::vector<int>& edges, const std::vector<double>& sync) {
        for (std::size_t i = 0; i < edges.size(); ++i) {
          const UnitEdge& e = model.graph.edges[static_cast<std::size_t>(edges[i])];
          if (stage_of[static_cast<std::size_t>(e.producer)] !=
              stage_of[static_cast<std::size_t>(e.consumer)])
            bytes += 2 * (e.bytes + sync[i]);
        }
      };
      cut(model.in_edges[u], choice->in_sync);
      cut(model.out_edges[u], choice->out_sync);
    }
    if (memory > options.memory) return kNever;
    const double d = stage.data;
    slowest = std::max(
        slowest, compute / d + (bytes / d + 4 * (d - 1) * parameters / d / options.microbatches) /
                                   options.bandwidth);
  }
  return slowest;
}

}  // namespace sluice
