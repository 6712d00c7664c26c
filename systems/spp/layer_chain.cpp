#include "systems/spp/layer_chain.h"

#include <algorithm>
#include <numeric>

namespace sluice {

LayerChain layer_chain(const CostGraph& costs) {
  LayerChain chain;
  std::vector<int> unit_of;
  for (std::size_t l = 0; l < costs.layers.size(); ++l) {
    const LayerCost& layer = costs.layers[l];
    if (!layer.fused || chain.first_layer.empty()) {
      chain.first_layer.push_back(static_cast<int>(l));
      for (auto* of_unit : {&chain.forward, &chain.backward, &chain.parameters, &chain.outputs}) of_unit->push_back(0);
    }
    chain.forward.back() += layer.forward.value;
    chain.backward.back() += (layer.input_gradient + layer.weight_gradient).value;
    chain.parameters.back() += static_cast<double>(layer.parameters.value);
    chain.outputs.back() += static_cast<double>(layer.output.value);
    unit_of.push_back(chain.units() - 1);
  }
  chain.first_layer.push_back(static_cast<int>(costs.layers.size()));
  // A tensor crosses every cut from the unit that makes it to the last that reads it.
  std::vector<int> last_reader = unit_of;
  for (std::size_t l = 0; l < costs.layers.size(); ++l)
    for (const int producer : costs.layers[l].inputs)
      if (producer >= 0) {
        int& last = last_reader[static_cast<std::size_t>(producer)];
        last = std::max(last, unit_of[l]);
      }
  chain.cut_forward.assign(static_cast<std::size_t>(std::max(chain.units() - 1, 0)), 0);
  for (std::size_t l = 0; l < costs.layers.size(); ++l)
    for (int k = unit_of[l]; k < last_reader[l]; ++k)
      chain.cut_forward[static_cast<std::size_t>(k)] += static_cast<double>(costs.layers[l].output.value);
  chain.cut_backward = chain.cut_forward;
  return chain;
}

std::vector<int> layers_of(const LayerChain& chain, int first, int last) {
  const int begin = chain.first_layer[static_cast<std::size_t>(first)];
  std::vector<int> layers(static_cast<std::size_t>(chain.first_layer[static_cast<std::size_t>(last)] - begin));
  std::iota(layers.begin(), layers.end(), begin);
  return layers;
}

}  // namespace sluice
