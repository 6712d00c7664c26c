#include "systems/graphpipe/stage_costs.h"

namespace sluice {

StageCosts::StageCosts(const Problem& problem, const Operators& operators)
    : problem_(problem), operators_(operators), machine_(problem, "graphpipe") {
  for (const LayerGroup& group : operators.groups) parameters_.push_back(group.gradients);
}

void StageCosts::give(StageSearchSpace& space) {
  sizes_.clear();
  for (const int microbatches_per_op : space.microbatches_per_op()) {
    const auto known = known_.find(microbatches_per_op);
    sizes_.push_back(known != known_.end()
                         ? &known->second
                         : &known_.emplace(microbatches_per_op, costs_at(microbatches_per_op)).first->second);
  }
  classify();
  space.memory = machine_.memory.value;
  space.work = [this, degrees = space.degrees](std::span<const int> vertices) { return work(vertices, degrees); };
  space.footprint = [this](std::span<const int> vertices) { return footprint(vertices); };
  space.signature = [this](std::span<const int> vertices) { return signature(vertices); };
}

StageCosts::CostsPerOp StageCosts::costs_at(int microbatches_per_op) const {
  if (microbatches_per_op == 1) return costs_per_op(problem_.costs);
  if (!problem_.costs_at) return costs_per_op(grouped_costs(problem_.costs, microbatches_per_op));
  return costs_per_op(*problem_.costs_at(microbatches_per_op * problem_.costs.micro_batch));
}

StageCosts::CostsPerOp StageCosts::costs_per_op(const CostGraph& graph) const {
  CostsPerOp costs;
  for (const LayerCost& layer : graph.layers)
    costs.message.push_back(2 * (machine_.neighbour.latency +
                                 machine_.neighbour.seconds_per_byte * static_cast<double>(layer.output.value)));
  for (const LayerGroup& group : operators_.groups) {
    Seconds seconds;
    for (const int l : group.layers) {
      const LayerCost& layer = graph.layers[l];
      seconds += layer.forward + layer.input_gradient + layer.weight_gradient;
    }
    costs.compute.push_back(seconds.value / machine_.speed);
  }
  return costs;
}

void StageCosts::classify() {
  class_.clear();
  std::map<std::vector<double>, double> classes;
  for (int o = 0; o < operators_.count(); ++o) {
    const StageFootprint kept = footprint(std::vector{o});
    std::vector<double> costs{parameters_[o], static_cast<double>(kept.always), static_cast<double>(kept.per_op),
                              static_cast<double>(kept.per_micro_batch)};
    for (const CostsPerOp* size : sizes_) costs.push_back(size->compute[o]);
    class_.push_back(classes.try_emplace(costs, static_cast<double>(classes.size())).first->second);
  }
}

std::vector<double> StageCosts::signature(std::span<const int> vertices) const {
  std::vector<double> result = operators_.signature(vertices);
  for (const int v : vertices) result.push_back(class_[v]);
  return result;
}

const LinkCost& StageCosts::ring(int degree) {
  const auto known = rings_.find(degree);
  if (known != rings_.end()) return known->second;
  return rings_[degree] = machine_.ring(degree);
}

StageWork StageCosts::work(std::span<const int> vertices, std::span<const int> degrees) {
  const std::vector<int> crossing = operators_.crossing(vertices);
  StageWork result;
  double parameters = 0;
  for (const int v : vertices) parameters += parameters_[v];
  for (const CostsPerOp* size : sizes_) {
    double compute = 0, messages = 0;
    for (const int v : vertices) compute += size->compute[v];
    for (const int l : crossing) messages += size->message[l];
    result.compute.push_back(compute);
    result.communication.push_back(messages);
  }
  for (const int degree : degrees)
    result.all_reduce.push_back(2.0 * (degree - 1) *
                                (parameters / degree * ring(degree).seconds_per_byte + ring(degree).latency));
  return result;
}

StageFootprint StageCosts::footprint(std::span<const int> vertices) const {
  const std::vector<int> layers = operators_.layers_of(vertices);
  if (problem_.footprint) {
    const auto f = problem_.footprint(layers);
    return {f.always.value, f.per_micro_batch.value, problem_.costs.micro_batch * f.per_sample.value};
  }
  StageFootprint result;
  for (const int l : layers) {
    const LayerCost& layer = problem_.costs.layers[l];
    result.always += problem_.costs.resident(layer.parameters).value;
    result.per_micro_batch += layer.kept().value;
  }
  return result;
}

}  // namespace sluice
