#include "harness/sim/costs.h"

namespace sluice {

Costs costs_of(const Plan& plan, const CostGraph& graph, const Cluster& cluster) {
  Costs costs{stage_costs(plan, graph, cluster), {}, {}};
  const StageGraph stages = stage_graph(plan, graph);
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (const StageId t : stages.successors[s])
      costs.edges.push_back({StageId(s), t, edge_bytes(plan, graph, StageId(s), t)});
  for (const PlanStage& stage : plan.stages) {
    Bytes& bytes = costs.weight_stash.emplace_back(0);
    if (!stage.weight_gradient_device) continue;
    for (const int l : stage.layers) {
      const LayerCost& layer = graph.layers[static_cast<std::size_t>(l)];
      if (layer.parameters.value == 0) continue;
      bytes += layer.output;
      for (const int input : layer.inputs)
        if (input >= 0) bytes += graph.layers[static_cast<std::size_t>(input)].output;
    }
  }
  return costs;
}

Costs uniform_costs(int stages, double forward, double input_gradient, double weight_gradient) {
  StageCost cost{Seconds(forward), Seconds(input_gradient), Seconds(weight_gradient), Seconds(0), Bytes(0)};
  return {std::vector<StageCost>(static_cast<std::size_t>(stages), cost), {}, {}};
}

}  // namespace sluice
