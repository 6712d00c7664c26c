#include "harness/sim/costs.h"

#include <algorithm>
#include <map>
#include <set>

#include "harness/model/sequence_chunks.h"
#include "harness/pipeline/gradient_buckets.h"

namespace sluice {

// Of the tensors that go from one stage to another, those that the first one keeps for its backward.
static Bytes copied_bytes(const Plan& plan, const CostGraph& graph, StageId from, StageId to) {
  const std::vector<int>& made = plan.stages[from.index()].layers;
  std::set<int> crossing;
  for (const int l : plan.stages[to.index()].layers)
    for (const int input : graph.layers[l].inputs)
      if (std::ranges::binary_search(made, input)) crossing.insert(input);
  Bytes bytes;
  for (const int l : crossing) {
    const LayerCost& layer = graph.layers[l];
    if (layer.measured && layer.measured->keeps_output) bytes += layer.output;
  }
  return bytes;
}

// By how many bytes the gradient that a stage sends is larger (below 0: smaller) for what it passes on
// (PlanStage::passed_channels): its first layer's output gradient and those channels' weights in place of the channels.
static Bytes passed_bytes(const Plan& plan, const CostGraph& graph, StageId from) {
  const PlanStage& stage = plan.stages[from.index()];
  if (stage.passed_channels == 0) return {};
  const LayerCost& layer = graph.layers[stage.layers.front()];
  const Bytes input = graph.layers[layer.inputs.front()].output;
  const auto of = [&](Bytes whole) { return Bytes(whole.value * stage.passed_channels / layer.input_channels); };
  return layer.output + of(layer.parameters) - of(input);
}

Costs::ChunkParts Costs::parts_of(const Program& program, StageId stage, int chunk) const {
  if (!chunk_parts.empty()) return chunk_parts[stage.index()][chunk];
  const double part = 1.0 / program.sequence_chunks;
  return {part, part, part};
}

double Costs::part_of_message(const Program& program, const Instruction& message) const {
  if (program.sequence_chunks == 1 || !is_along_edge(message.opcode)) return 1;
  if (chunk_positions.empty()) return 1.0 / program.sequence_chunks;
  return chunk_positions[program.sequence_chunk_of(message.micro)];
}

// Of a stage's layers. Launches are part of the seconds that costs.launch says, of every chunk anew.
static Costs::ChunkParts parts_of_chunk(const PlanStage& stage, const CostGraph& graph, const Plan& plan,
                                        std::size_t chunk) {
  const double positions = share_of_positions(plan.sequence_cut, chunk),
               pairs = share_of_pairs(plan.sequence_cut, chunk);
  struct Sum {
    double all = 0, chunk = 0;
    double part(double otherwise) const { return all > 0 ? chunk / all : otherwise; }
  } forward, input_gradient, weight_gradient;
  const auto add = [&](Sum& sum, Seconds seconds, double by_pairs) {
    const double launch = std::min(graph.launch, seconds).value;
    sum.all += seconds.value;
    sum.chunk += launch + (seconds.value - launch) * ((1 - by_pairs) * positions + by_pairs * pairs);
  };
  for (const int l : stage.layers) {
    const LayerCost& layer = graph.layers[l];
    add(forward, layer.forward, layer.forward_pairs);
    add(input_gradient, layer.input_gradient, layer.input_gradient_pairs);
    add(weight_gradient, layer.weight_gradient, 0);
  }
  return {forward.part(positions), input_gradient.part(positions), weight_gradient.part(positions)};
}

static void cut_sequences(Costs& costs, const Plan& plan, const CostGraph& graph) {
  if (plan.sequence_cut.empty()) return;
  const auto chunks = static_cast<std::size_t>(plan.sequence.count);
  for (std::size_t c = 0; c < chunks; ++c) costs.chunk_positions.push_back(share_of_positions(plan.sequence_cut, c));
  for (const PlanStage& stage : plan.stages) {
    auto& parts = costs.chunk_parts.emplace_back();
    for (std::size_t c = 0; c < chunks; ++c) parts.push_back(parts_of_chunk(stage, graph, plan, c));
  }
}

// What one op of a stage keeps between F and I or B.
static Bytes kept_bytes(const PlanStage& stage, const CostGraph& graph) {
  Bytes bytes;
  for (std::size_t i = 0; i < stage.layers.size(); ++i) {
    const LayerVariant* variant = variant_of(stage, i, graph);
    bytes += variant ? variant->in_flight : graph.layers[stage.layers[i]].kept();
  }
  return bytes * stage.microbatches_per_op;
}

std::vector<Seconds> host_copies_of(const Plan& plan, const CostGraph& graph, const Cluster& cluster) {
  std::vector<Seconds> seconds;
  for (const PlanStage& stage : plan.stages) {
    double slowest = graph.machine ? graph.machine->copy : 0;  // seconds of a byte
    Seconds latency;
    if (!graph.machine)
      for (const DeviceId id : stage.devices) {
        const Device& device = cluster.devices[id.index()];
        if (device.host_bandwidth == 0) return {};
        slowest = std::max(slowest, 1 / device.host_bandwidth);
        latency = std::max(latency, device.host_latency);
      }
    seconds.push_back(latency + Seconds(slowest * static_cast<double>(kept_bytes(stage, graph).value)));
  }
  return seconds;
}

// whole: the gradients of all of the stage's layers.
static std::vector<Costs::GradientBucket> buckets_of(const PlanStage& stage, const CostGraph& graph, Bytes whole,
                                                     Bytes least) {
  double backward = 0, weight_gradient = 0;  // seconds up to and with a layer, from the last layer on
  std::vector<Bytes> gradients;
  std::vector<Costs::GradientBucket> made;  // per gradient
  for (std::size_t i = stage.layers.size(); i-- > 0;) {
    const LayerCost& layer = graph.layers[stage.layers[i]];
    const LayerVariant* variant = variant_of(stage, i, graph);
    const Bytes parameters = variant ? variant->parameters : layer.reduced();
    backward += (layer.input_gradient + layer.weight_gradient).value;
    weight_gradient += layer.weight_gradient.value;
    if (parameters.value == 0) continue;
    gradients.push_back(graph.gradients(parameters));
    made.push_back({0, backward, weight_gradient});
  }
  std::vector<Costs::GradientBucket> buckets;
  std::size_t begin = 0;
  double left = static_cast<double>(whole.value);
  for (const std::size_t end : gradient_bucket_ends(gradients, least)) {
    Costs::GradientBucket bucket;
    for (; begin < end; ++begin) bucket.bytes += static_cast<double>(gradients[begin].value);
    if (end < gradients.size()) {
      left -= bucket.bytes;
      if (backward > 0) bucket.in_backward = made[end - 1].in_backward / backward;
      if (weight_gradient > 0) bucket.in_weight_gradient = made[end - 1].in_weight_gradient / weight_gradient;
    } else {
      bucket.bytes = std::max(left, 0.0);
    }
    buckets.push_back(bucket);
  }
  return buckets;
}

Costs costs_of(const Plan& plan, const CostGraph& graph, const Cluster& cluster, Bytes gradient_bucket) {
  Costs costs{stage_costs(plan, graph, cluster), {}, {}, graph.machine};
  cut_sequences(costs, plan, graph);
  costs.host_copies = host_copies_of(plan, graph, cluster);
  std::map<int, Bytes> copies;  // by the layer that has the weight
  for (const LayerCost& layer : graph.layers)
    if (layer.copy_of >= 0) copies[layer.copy_of] = layer.copy;
  for (const auto& [layer, bytes] : copies) costs.copies.push_back(bytes);
  costs.norm = Bytes(8 * static_cast<std::int64_t>(graph.layers.size()));
  if (gradient_bucket.value > 0)
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
      costs.gradient_buckets.push_back(buckets_of(plan.stages[s], graph, costs.stages[s].gradients(), gradient_bucket));
  const StageGraph stages = stage_graph(plan, graph);
  const std::vector<bool> no_gradient = without_gradient(graph);
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (const StageId t : stages.successors[s])
      costs.edges.push_back({StageId(s), t, edge_bytes(plan, graph, StageId(s), t),
                             copied_bytes(plan, graph, StageId(s), t),
                             gradient_bytes(plan, graph, StageId(s), t, no_gradient) -
                                 edge_bytes(plan, graph, StageId(s), t) + passed_bytes(plan, graph, t)});
  for (const PlanStage& stage : plan.stages) {
    Bytes& bytes = costs.weight_stash.emplace_back(0);
    if (!stage.weight_gradient_device) continue;
    for (const int l : stage.layers) {
      const LayerCost& layer = graph.layers[l];
      if (layer.trained().value == 0) continue;
      bytes += layer.output;
      for (const int input : layer.inputs)
        if (input >= 0) bytes += graph.layers[input].output;
    }
  }
  return costs;
}

}  // namespace sluice
