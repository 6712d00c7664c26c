#include "harness/pipeline/plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "harness/base/error.h"

namespace sluice {

std::vector<int> stage_of_layers(const Plan& plan, std::size_t layers) {
  std::vector<int> stage_of(layers, -1);
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const int layer : plan.stages[s].layers) {
      if (layer < 0 || static_cast<std::size_t>(layer) >= layers)
        throw InputError(
            "plan", "stage " + std::to_string(s) + " names layer " + std::to_string(layer) + ", which does not exist");
      int& owner = stage_of[layer];
      if (owner >= 0)
        throw InputError("plan", "layer " + std::to_string(layer) + " is in stages " + std::to_string(owner) + " and " +
                                     std::to_string(s));
      owner = static_cast<int>(s);
    }
  const auto missing = std::ranges::find(stage_of, -1);
  if (missing != stage_of.end())
    throw InputError("plan", "layer " + std::to_string(missing - stage_of.begin()) + " is in no stage");
  return stage_of;
}

std::vector<std::pair<StageId, StageId>> stage_edges(const Plan& plan, const std::vector<std::vector<int>>& inputs) {
  const std::vector<int> stage_of = stage_of_layers(plan, inputs.size());
  std::set<std::pair<StageId, StageId>> edges;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (const int p : inputs[i])
      if (p >= 0 && stage_of[p] != stage_of[i]) edges.insert({StageId(stage_of[p]), StageId(stage_of[i])});
  edges.insert(plan.imposed_edges.begin(), plan.imposed_edges.end());
  return {edges.begin(), edges.end()};
}

std::vector<std::vector<int>> inputs_of(const CostGraph& costs) {
  std::vector<std::vector<int>> inputs;
  for (const LayerCost& layer : costs.layers) inputs.push_back(layer.inputs);
  return inputs;
}

static bool takes_groups(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const PlanStage& s) { return s.microbatches_per_op != 1; });
}

StageGraph stage_graph(const Plan& plan, const CostGraph& costs) {
  StageGraph graph = stage_graph(static_cast<int>(plan.stages.size()), stage_edges(plan, inputs_of(costs)), "plan");
  if (takes_groups(plan))
    for (const PlanStage& stage : plan.stages) graph.microbatches_per_op.push_back(stage.microbatches_per_op);
  return graph;
}

RankMap ranks_of(const Plan& plan) {
  RankMap map;
  std::map<DeviceId, Rank> rank_of;
  map.placement.replica_of = plan.replica_of;
  for (const DeviceId device : plan.rank_order)
    if (rank_of.try_emplace(device, Rank(map.devices.size())).second) map.devices.push_back(device);
  for (const PlanStage& stage : plan.stages) {
    auto& ranks = map.placement.stages.emplace_back();
    if (stage.devices.empty()) throw InputError("plan", "a stage has no device");
    const auto shared_by = static_cast<std::size_t>(stage.tensor);
    if (stage.tensor < 1 || stage.devices.size() % shared_by != 0)
      throw InputError("plan", std::to_string(stage.devices.size()) +
                                   " devices of a stage do not form tensor-parallel groups of " +
                                   std::to_string(stage.tensor));
    for (std::size_t d = 0; d < stage.devices.size(); d += shared_by) {
      const auto [found, fresh] = rank_of.try_emplace(stage.devices[d], Rank(map.devices.size()));
      if (fresh && !plan.rank_order.empty())
        throw InputError("plan", "device " + std::to_string(stage.devices[d].value) + " has no rank");
      if (fresh) map.devices.push_back(stage.devices[d]);
      ranks.push_back(found->second);
    }
    if (!stage.weight_gradient_device) continue;
    const DeviceId apart = stage.weight_gradient_device.value();
    const auto [found, fresh] = rank_of.try_emplace(apart, Rank(map.devices.size()));
    if (fresh) map.devices.push_back(apart);
    map.placement.weight_gradient_ranks.resize(plan.stages.size(), Rank(-1));
    map.placement.weight_gradient_ranks[map.placement.stages.size() - 1] = found->second;
  }
  return map;
}

namespace {

// F, I and W of a layer of the plan on a device.
DeviceTime time_on(const LayerCost& layer, const LayerVariant* variant, const Device& device) {
  if (variant) {  // published as one figure
    const Seconds third = variant->seconds / (3 * device.speed);
    return {device.name, third, third, third};
  }
  const auto measured = std::ranges::find(layer.on, device.name, &DeviceTime::device);
  if (measured != layer.on.end()) return *measured;
  return {device.name, layer.forward / device.speed, layer.input_gradient / device.speed,
          layer.weight_gradient / device.speed};
}

// How many times as long a pass takes where a rank holds that part of the layers (PassMeasurement::half): between all
// of them and half of them in proportion, below half as at half.
double of_smaller_set(const PassMeasurement& pass, double share) {
  return 1 + (pass.half - 1) * std::min(2 * (1 - share), 1.0);
}

// Of every device, the part of the plan's layers that lies on it.
std::vector<double> shares_of_layers(const Plan& plan, std::size_t devices) {
  std::vector<double> shares(devices, 0);
  double all = 0;
  for (const PlanStage& stage : plan.stages) {
    const auto layers = static_cast<double>(stage.layers.size());
    all += layers;
    for (const DeviceId device : stage.devices)
      if (device.index() < devices) shares[device.index()] += layers;  // stage_costs() rejects the others
  }
  for (double& share : shares) share = all > 0 ? share / all : 1;
  return shares;
}

// Adds up what was measured inside a run over the layers of a stage.
class ContentionSums {
 public:
  // share: of the model's layers, on the rank.
  void add(StageCost& cost, const LayerCost& layer, DeviceTime time, double speed, double share) {
    const LayerMeasurement measured = layer.measured.value_or(LayerMeasurement{});
    const double set = of_smaller_set(measured.weight_gradient, share);
    cost.clear += measured.clear / speed;
    cost.batched_weight_gradient +=
        measured.batched_weight_gradient.value_or(time.weight_gradient * speed) * set / speed;
    cost.split_weight_gradient += measured.split_weight_gradient.value_or(time.weight_gradient * speed) * set / speed;
    time.forward = time.forward * of_smaller_set(measured.forward, share);
    time.input_gradient = time.input_gradient * of_smaller_set(measured.input_gradient, share);
    time.weight_gradient = time.weight_gradient * set;
    const Seconds update = layer.update * of_smaller_set(measured.update, share) / speed;
    cost.forward += time.forward;
    cost.input_gradient += time.input_gradient;
    cost.weight_gradient += time.weight_gradient;
    cost.update += update;
    forward_ += time.forward * measured.forward.contended;
    input_gradient_ += time.input_gradient * measured.input_gradient.contended;
    weight_gradient_ += time.weight_gradient * measured.weight_gradient.contended;
    update_ += update * measured.update.contended;
  }
  void finish(StageCost& cost) const {
    const auto ratio = [](Seconds busy, Seconds idle) { return idle.value > 0 ? busy.value / idle.value : 1.0; };
    cost.contention = {ratio(forward_, cost.forward), ratio(input_gradient_, cost.input_gradient),
                       ratio(weight_gradient_, cost.weight_gradient), ratio(update_, cost.update)};
  }

 private:
  Seconds forward_, input_gradient_, weight_gradient_, update_;
};

}  // namespace

// Every stage from the costs of the micro-batches that its ops take at once.
static std::vector<StageCost> grouped_stage_costs(Plan plan, const CostGraph& costs, const Cluster& cluster) {
  std::vector<int> microbatches_per_op;
  for (PlanStage& stage : plan.stages) microbatches_per_op.push_back(std::exchange(stage.microbatches_per_op, 1));
  std::vector<StageCost> result(plan.stages.size());
  for (const int microbatches : std::set(microbatches_per_op.begin(), microbatches_per_op.end())) {
    const auto all = stage_costs(plan, grouped_costs(costs, microbatches), cluster);
    for (std::size_t s = 0; s < all.size(); ++s)
      if (microbatches_per_op[s] == microbatches) result[s] = all[s];
  }
  return result;
}

// The part of its first layer's input gradient that the stage passes to the one before it.
static double passed_part(const PlanStage& stage, const CostGraph& costs) {
  if (stage.passed_channels == 0) return 0;
  const LayerCost& layer = costs.layers[stage.layers.front()];
  if (stage.passed_channels >= layer.input_channels)
    throw InputError("plan",
                     "a stage passes " + std::to_string(stage.passed_channels) + " channels of layer '" + layer.name +
                         "' on, which has " + std::to_string(layer.input_channels),
                     "one must stay");
  return static_cast<double>(stage.passed_channels) / layer.input_channels;
}

// Layers whose input gradient a run of the whole model does not compute, since nothing before them learns, and a plan's
// stage does, to send it to the stage before.
static std::vector<bool> only_a_cut_needs_input_gradient(const Plan& plan, const CostGraph& costs) {
  std::vector<int> stage_of(costs.layers.size(), -1);  // of a plan that need not have all layers
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const int l : plan.stages[s].layers) stage_of.at(l) = static_cast<int>(s);
  const std::vector<bool> no_gradient = without_gradient(costs);
  std::vector<bool> needs(costs.layers.size(), false), learns(costs.layers.size(), false), cut = needs;
  for (std::size_t l = 0; l < costs.layers.size(); ++l) {  // learns, cut: of the layer and all before it
    bool learns_before = false;
    for (const int p : costs.layers[l].inputs) {
      if (p < 0) continue;
      learns_before = learns_before || learns[p];
      cut[l] = cut[l] || cut[p] || stage_of[p] != stage_of[l];
    }
    needs[l] = cut[l] && !learns_before &&
               std::ranges::none_of(costs.layers[l].inputs, [&](int p) { return p >= 0 && no_gradient[p]; });
    learns[l] = learns_before || costs.layers[l].trained().value > 0;
  }
  return needs;
}

std::vector<StageCost> stage_costs(const Plan& plan, const CostGraph& costs, const Cluster& cluster) {
  if (takes_groups(plan)) return grouped_stage_costs(plan, costs, cluster);
  const std::vector<double> shares = shares_of_layers(plan, cluster.devices.size());
  const std::vector<bool> only_cut = only_a_cut_needs_input_gradient(plan, costs);
  std::vector<StageCost> result;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const PlanStage& stage = plan.stages[s];
    const PlanStage* const next = s + 1 < plan.stages.size() ? &plan.stages[s + 1] : nullptr;
    StageCost slowest;
    for (const DeviceId id : stage.devices) {
      if (id.value < 0 || id.index() >= cluster.devices.size())
        throw InputError("plan", "device " + std::to_string(id.value) + " does not exist",
                         "cluster '" + cluster.name + "' has " + std::to_string(cluster.devices.size()));
      const Device& device = cluster.devices[id.index()];
      StageCost cost;
      ContentionSums contention;
      Seconds apart, paired;  // of all passes: one after another, and in pairs
      Bytes reduced;          // of parameters: those whose gradients the replicas reduce
      for (std::size_t i = 0; i < stage.layers.size(); ++i) {
        const LayerCost& layer = costs.layers[stage.layers[i]];
        const LayerVariant* variant = variant_of(stage, i, costs);
        DeviceTime time = time_on(layer, variant, device);
        // It has as many operations as the weight gradient, which was measured.
        if (layer.measured && only_cut[stage.layers[i]]) time.input_gradient += time.weight_gradient;
        if (i == 0) time.input_gradient = time.input_gradient * (1 - passed_part(stage, costs));
        cost.parameters += variant ? variant->parameters : layer.trained();
        reduced += variant ? variant->parameters : layer.reduced();
        if (!variant) cost.frozen += layer.frozen;
        const Seconds passes = time.forward + time.input_gradient + time.weight_gradient;
        apart += passes;
        paired += passes * layer.pair_share.value_or(cluster.pair_share.value_or(1));
        contention.add(cost, layer, time, device.speed, shares[id.index()]);
      }
      cost.gradient_bytes = costs.gradients(reduced);
      contention.finish(cost);
      if (apart.value > 0) cost.pair_share = paired.value / apart.value;
      if (next && next->passed_channels > 0) {
        const LayerCost& divided = costs.layers[next->layers.front()];
        cost.input_gradient += time_on(divided, nullptr, device).input_gradient * passed_part(*next, costs);
      }
      const auto work = [](const StageCost& c) { return c.forward + c.input_gradient + c.weight_gradient + c.update; };
      if (id == stage.devices.front() || work(cost) > work(slowest)) slowest = cost;
    }
    result.push_back(slowest);
  }
  return result;
}

// left_out: layers whose outputs do not count; null: all count.
static Bytes crossing_bytes(const Plan& plan, const CostGraph& costs, StageId from, StageId to,
                            const std::vector<bool>* left_out) {
  const PlanStage& source = plan.stages[from.index()];
  const PlanStage& sink = plan.stages[to.index()];
  std::map<int, Bytes> crossing;  // by producer: the most that a consumer asks for
  for (std::size_t i = 0; i < sink.layers.size(); ++i) {
    const LayerCost& layer = costs.layers[sink.layers[i]];
    const LayerVariant* variant = variant_of(sink, i, costs);
    for (std::size_t n = 0; n < layer.inputs.size(); ++n) {
      const int producer = layer.inputs[n];
      const auto found = std::ranges::lower_bound(source.layers, producer);
      if (found == source.layers.end() || *found != producer) continue;
      if (left_out && (*left_out)[producer]) continue;
      Bytes bytes = layer.input_bytes.empty() ? costs.layers[producer].output : layer.input_bytes[n];
      if (variant && !variant->input_sync.empty()) bytes += variant->input_sync[n];
      const LayerVariant* made = variant_of(source, static_cast<std::size_t>(found - source.layers.begin()), costs);
      if (made)
        if (const auto sync = made->output_sync.find(sink.layers[i]); sync != made->output_sync.end())
          bytes += sync->second;
      Bytes& most = crossing[producer];
      most = std::max(most, bytes);
    }
  }
  Bytes total;
  for (const auto& [producer, bytes] : crossing) total += bytes;
  return total;
}

Bytes edge_bytes(const Plan& plan, const CostGraph& costs, StageId from, StageId to) {
  return crossing_bytes(plan, costs, from, to, nullptr);
}

Bytes gradient_bytes(const Plan& plan, const CostGraph& costs, StageId from, StageId to,
                     const std::vector<bool>& no_gradient) {
  return crossing_bytes(plan, costs, from, to, &no_gradient);
}

const LayerVariant* variant_of(const PlanStage& stage, std::size_t i, const CostGraph& costs) {
  if (stage.variants.empty()) return nullptr;
  const LayerCost& layer = costs.layers[stage.layers[i]];
  if (layer.variants.empty()) return nullptr;
  return &layer.variants.at(stage.variants.at(i));
}

}  // namespace sluice
