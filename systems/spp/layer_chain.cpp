#include "systems/spp/layer_chain.h"

#include <algorithm>
#include <numeric>

#include "harness/plan/layer_groups.h"

namespace sluice {

LayerChain layer_chain(const CostGraph& costs) {
  const LayerGroupGraph graph = layer_groups(costs);
  LayerChain chain;
  std::vector<int> group_of(costs.layers.size());
  for (const LayerGroup& group : graph.groups) {
    for (const int l : group.layers) group_of[l] = chain.groups();
    chain.first_layer.push_back(group.layers.front());
    chain.forward.push_back(group.forward);
    chain.backward.push_back(group.backward);
    chain.parameters.push_back(group.gradients);
    chain.outputs.push_back(group.kept);
  }
  chain.first_layer.push_back(static_cast<int>(costs.layers.size()));
  // A tensor crosses every cut from the group that makes it to the last that reads it.
  std::vector<int> last_reader = group_of;
  for (std::size_t l = 0; l < costs.layers.size(); ++l)
    for (const int producer : costs.layers[l].inputs)
      if (producer >= 0) {
        int& last = last_reader[producer];
        last = std::max(last, group_of[l]);
      }
  chain.cut_forward.assign(std::max(chain.groups() - 1, 0), 0);
  for (std::size_t l = 0; l < costs.layers.size(); ++l)
    for (int k = group_of[l]; k < last_reader[l]; ++k)
      chain.cut_forward[k] += static_cast<double>(costs.layers[l].output.value);
  chain.cut_backward = chain.cut_forward;
  return chain;
}

std::vector<int> layers_of(const LayerChain& chain, int first, int last) {
  const int begin = chain.first_layer[first];
  std::vector<int> layers(static_cast<std::size_t>(chain.first_layer[last] - begin));
  std::iota(layers.begin(), layers.end(), begin);
  return layers;
}

}  // namespace sluice
