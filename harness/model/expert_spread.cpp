#include "harness/model/expert_spread.h"

#include <algorithm>

#include "harness/base/error.h"

namespace sluice {

ModelGraph spread_experts(ModelGraph model, int replicas) {
  bool any = false;
  for (LayerSpec& layer : model.layers) {
    auto* const experts = std::get_if<Experts>(&layer.kind);
    if (!experts) continue;
    any = true;
    const std::string where = "layer '" + layer.name + "'";
    if (layer.frozen) throw InputError(where, "is frozen, and frozen experts are not spread", "use replicated experts");
    if (experts->experts % replicas != 0)
      throw InputError(
          where,
          std::to_string(experts->experts) + " experts cannot be spread over " + std::to_string(replicas) + " replicas",
          "choose a number of replicas that divides them");
    experts->spread = replicas;
  }
  if (!any)
    throw InputError("model '" + model.name + "'", "has no layer of the kind Experts", "use replicated experts");
  return model;
}

ModelGraph with_whole_experts(ModelGraph model) {
  for (LayerSpec& layer : model.layers)
    if (auto* const experts = std::get_if<Experts>(&layer.kind)) experts->spread = 1;
  return model;
}

int replicas_of_experts(const LayerSpec& layer) {
  const auto* const experts = std::get_if<Experts>(&layer.kind);
  return experts ? static_cast<int>(experts->spread) : 1;
}

int replicas_of_experts(const ModelGraph& model) {
  int replicas = 1;
  for (const LayerSpec& layer : model.layers) replicas = std::max(replicas, replicas_of_experts(layer));
  return replicas;
}

bool is_part_of_experts(const LayerSpec& layer, std::size_t parameter) {
  return parameter > 0 && replicas_of_experts(layer) > 1;
}

std::vector<ExpertExchanges> expert_exchanges(const ModelGraph& model) {
  const std::vector<Shape> shapes = model.shapes();
  std::vector<ExpertExchanges> result(model.layers.size());
  std::vector<bool> learned(model.layers.size());  // up to and including the layer
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const LayerSpec& layer = model.layers[l];
    const bool before = std::ranges::any_of(layer.inputs, [&](int input) { return input >= 0 && learned[input]; });
    learned[l] = before || learns(layer);
    if (replicas_of_experts(layer) == 1) continue;
    const auto& k = std::get<Experts>(layer.kind);
    const std::int64_t rows = k.rows_of(elements(shapes[l]) / k.features);
    result[l] = {.forward = {rows * k.features, rows * k.features},
                 .input_gradient = {rows * k.features, rows * (before ? k.features + 1 : 1)}};
  }
  return result;
}

}  // namespace sluice
