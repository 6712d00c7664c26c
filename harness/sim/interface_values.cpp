#include "harness/sim/interface_values.h"

#include <set>

namespace sluice {

InterfaceValues interface_values(const ModelGraph& model, std::span<const Shape> shapes, std::span<const int> layers,
                                 std::int64_t samples, const Storage& storage) {
  const std::vector<bool> in_place = overwrites(model, layers);
  const std::vector<bool> no_gradient = without_gradient(model);
  const std::set<int> own(layers.begin(), layers.end());
  // Layers whose output is the storage of their input.
  std::set<int> aliases;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (in_place[i] || std::holds_alternative<Flatten>(model.layers[layers[i]].kind)) aliases.insert(layers[i]);
  const auto tensor_of = [&](int value) {
    while (aliases.contains(value)) value = model.layers[value].inputs[0];
    return value;
  };
  std::set<int> until_input_gradient, until_weight_gradient, received, sent;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const LayerSpec& layer = model.layers[l];
    const int index = static_cast<int>(l);
    for (const int input : layer.inputs) {
      if (own.contains(input) && !own.contains(index)) sent.insert(input);
      if (!own.contains(input) && own.contains(index) && input >= 0) received.insert(input);
    }
    if (!own.contains(index) || no_gradient[l]) continue;
    const StashSpec keeps = stash(layer, input_shapes(model, shapes, layer), storage);
    for (const int input : layer.inputs) {
      if (keeps.keeps_input) until_input_gradient.insert(tensor_of(input));
      if (keeps.input_until_weight_gradient) until_weight_gradient.insert(tensor_of(input));
    }
    if (keeps.keeps_output) until_input_gradient.insert(tensor_of(index));
    if (keeps.output_until_weight_gradient) until_weight_gradient.insert(tensor_of(index));
  }
  const auto list = [&](const std::set<int>& values) {
    std::vector<InterfaceValue> result;
    for (const int value : values)
      result.push_back({.layer = value,
                        .until_input_gradient = until_input_gradient.contains(tensor_of(value)),
                        .until_weight_gradient = until_weight_gradient.contains(tensor_of(value)),
                        .has_gradient = !no_gradient[value],
                        .bytes = output_bytes(model, shapes, value, samples, storage)});
    return result;
  };
  InterfaceValues result{.sent = list(sent), .received = list(received)};
  for (const int value : until_weight_gradient) {
    if (value < 0) result.data_until_weight_gradient += output_bytes(model, shapes, value, samples, storage);
  }
  return result;
}

}  // namespace sluice
