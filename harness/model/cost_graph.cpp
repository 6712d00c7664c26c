#include "harness/model/cost_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/base/error.h"

namespace sluice {

namespace {

// Fractions of the datasheet's peak that kernels reach: planning values, replaced by `sluice
// profile`.
double efficiency(const LayerKind& kind) {
  if (convolves(kind)) return 0.55;
  if (std::holds_alternative<Attention>(kind) || std::holds_alternative<CrossAttention>(kind) ||
      std::holds_alternative<RelativeAttention>(kind))
    return 0.45;
  return 0.75;
}

// Of one sample: what attention keeps of its scores, which goes through memory. Fused, the scores never do.
double score_bytes(const LayerSpec& layer, std::span<const Shape> inputs, const Storage& storage) {
  return storage.attention == AttentionScores::fused ? 0
                                                     : static_cast<double>(kept_scores(layer, inputs, storage).value);
}

// Of an optimizer step: reads the weight and the gradient and writes the weight; where it steps an fp32 copy, reads and
// writes that, and writes the weight.
double update_bytes(const CostGraph& graph, Bytes weights) {
  const Bytes copies = graph.resident(weights) - weights - graph.gradients(weights);
  const Bytes stepped = copies > Bytes(0) ? 2 * copies : weights;
  return static_cast<double>((graph.gradients(weights) + stepped + weights).value);
}

}  // namespace

CostGraph forward_only(CostGraph costs) {
  for (LayerCost& layer : costs.layers) {
    layer.input_gradient = layer.weight_gradient = layer.update = Seconds(0);
    for (DeviceTime& time : layer.on) time.input_gradient = time.weight_gradient = Seconds(0);
    layer.variants.clear();
  }
  for (CostGraph& larger : costs.larger) larger = forward_only(std::move(larger));
  return costs;
}

void count_tied_weights_once(CostGraph& graph, const ModelGraph& model) {
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const LayerSpec& layer = model.layers[l];
    if (layer.tied_to < 0) continue;
    LayerCost& cost = graph.layers[l];
    const double part =
        static_cast<double>(parameter_count(layer)) / static_cast<double>(parameter_count(untied(layer)));
    const auto own = [&](Bytes whole) {
      return Bytes(static_cast<std::int64_t>(std::llround(part * double(whole.value))));
    };
    cost.parameters = own(cost.parameters);
    cost.update = cost.update * part;
    if (!cost.measured) continue;
    cost.measured->update.peak = own(cost.measured->update.peak);
    cost.measured->update.left = own(cost.measured->update.left);
    cost.measured->clear = cost.measured->clear * part;
  }
}

void count_copies(CostGraph& graph, const ModelGraph& model) {
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const int owner = model.layers[l].copy_of;
    if (owner < 0) continue;
    LayerCost& cost = graph.layers[l];
    const LayerCost& from = graph.layers[owner];
    const std::int64_t weight = elements(parameters(model.layers[l]).front().shape);
    const double part = static_cast<double>(weight) / static_cast<double>(parameter_count(model.layers[owner]));
    const auto of = [&](Bytes whole) { return Bytes(std::llround(part * static_cast<double>(whole.value))); };
    cost.parameters += of(from.parameters);
    if (model.layers[l].frozen) {
      cost.frozen = cost.parameters;
      continue;
    }
    cost.copy = weight * graph.storage.gradient;
    cost.copy_of = owner;
    cost.update += from.update * part;
    if (!cost.measured || !from.measured) continue;
    cost.measured->update.peak += of(from.measured->update.peak);
    cost.measured->update.left += of(from.measured->update.left);
    cost.measured->clear += from.measured->clear * part;
  }
  for (CostGraph& larger : graph.larger) count_copies(larger, model);
}

std::vector<bool> without_gradient(const CostGraph& graph) {
  if (std::ranges::none_of(graph.layers, [](const LayerCost& layer) { return layer.frozen.value > 0; }))
    return std::vector<bool>(graph.layers.size());
  std::vector<std::vector<int>> inputs;
  for (const LayerCost& layer : graph.layers) inputs.push_back(layer.inputs);
  return without_gradient(
      inputs,
      [&](std::size_t l) { return graph.layers[l].trained().value > 0 || graph.layers[l].weight_gradient.value > 0; },
      [&](std::size_t l) { return graph.layers[l].frozen.value > 0; });
}

void count_frozen_layers(CostGraph& graph, const ModelGraph& model) {
  const std::vector<bool> no_gradient = without_gradient(model);
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    LayerCost& cost = graph.layers[l];
    if (model.layers[l].frozen) {
      cost.frozen = cost.parameters;
      cost.weight_gradient = cost.update = Seconds(0);
      for (DeviceTime& time : cost.on) time.weight_gradient = Seconds(0);
      if (cost.measured) {
        cost.measured->weight_gradient = cost.measured->update = {};
        cost.measured->clear = Seconds(0);
        cost.measured->batched_weight_gradient.reset();
        cost.measured->split_weight_gradient.reset();
      }
    }
    const std::vector<int>& inputs = model.layers[l].inputs;
    const bool reads_only_such = std::ranges::all_of(inputs, [&](int p) { return p < 0 || no_gradient[p]; }) &&
                                 std::ranges::any_of(inputs, [&](int p) { return p >= 0; });
    if (!no_gradient[l] && !reads_only_such) continue;
    cost.input_gradient = Seconds(0);
    cost.input_channels = 0;
    for (DeviceTime& time : cost.on) time.input_gradient = Seconds(0);
    if (cost.measured) cost.measured->input_gradient = {};
  }
  for (CostGraph& larger : graph.larger) count_frozen_layers(larger, model);
}

CostGraph analytic_costs(const ModelGraph& model, std::int64_t micro_batch, const Device& device,
                         const Storage& storage) {
  const std::vector<Shape> shapes = model.shapes();
  require_peak({&device, 1}, storage);
  CostGraph graph{
      .model = model.name, .source = "analytic", .device = device.name, .micro_batch = micro_batch, .layers = {}};
  graph.launch = device.launch;
  graph.storage = storage;
  const auto element = static_cast<double>(storage.activation.value);
  const double samples = static_cast<double>(micro_batch);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const LayerSpec layer = untied(model.layers[i]);
    const std::vector<Shape> inputs = input_shapes(model, shapes, layer);
    double input_bytes = 0;
    for (const Shape& input : inputs) input_bytes += element * samples * static_cast<double>(elements(input));
    const LayerFlops work = flops(layer, inputs, storage.attention);
    const Bytes weights = parameter_count(layer) * storage.weight;
    const auto weight_bytes = static_cast<double>(weights.value);
    const Bytes out = output_bytes(model, shapes, static_cast<int>(i), micro_batch, storage);
    // A look-up reads (and its weight gradient writes) rows, not the table; ids take no gradient.
    const bool looks_up = std::holds_alternative<Embedding>(layer.kind);
    const double weights_touched = looks_up ? static_cast<double>(out.value) : weight_bytes;
    const double streamed =
        input_bytes + static_cast<double>(out.value) + weights_touched + score_bytes(layer, inputs, storage) * samples;
    const auto seconds = [&](Flops per_sample, double bytes) {
      if (bytes == 0) return Seconds(0);
      const double compute = per_sample.value * samples / (device.peak(storage) * efficiency(layer.kind));
      const double memory = bytes / (device.memory_bandwidth * kStreaming);
      return Seconds(std::max(compute, memory)) + device.launch;
    };
    const bool view = stash(layer, inputs).output_is_input && work.forward.value == 0;
    LayerCost cost;
    cost.name = layer.name;
    cost.inputs = layer.inputs;
    cost.forward = view ? Seconds(0) : seconds(work.forward, streamed);
    cost.input_gradient = view || looks_up ? Seconds(0) : seconds(work.input_gradient, streamed);
    cost.weight_gradient = weight_bytes > 0 ? seconds(work.weight_gradient, streamed) : Seconds(0);
    cost.update = Seconds(update_bytes(graph, weights) / (device.memory_bandwidth * kStreaming));
    cost.parameters = weights;
    cost.output = out;
    cost.fused = is_fused_with_predecessor(layer);
    cost.input_channels = input_channels(layer);
    graph.layers.push_back(cost);
  }
  count_tied_weights_once(graph, model);
  count_frozen_layers(graph, model);
  return graph;
}

CostGraph with_weights_in(const Storage& storage, CostGraph costs) {
  const std::int64_t from = costs.storage.weight.value, to = storage.weight.value;
  for (LayerCost& layer : costs.layers) {
    for (Bytes LayerCost::*weights : {&LayerCost::parameters, &LayerCost::frozen, &LayerCost::own})
      layer.*weights = layer.*weights * to / from;
    layer.copy = layer.copy * storage.gradient.value / costs.storage.gradient.value;
  }
  costs.storage = storage;
  return costs;
}

CostGraph in_proportion(const CostGraph& costs, std::int64_t micro_batch) {
  CostGraph result = costs;
  result.larger.clear();
  result.micro_batch = micro_batch;
  const double factor = static_cast<double>(micro_batch) / static_cast<double>(costs.micro_batch);
  const auto scaled = [&](Bytes bytes) {
    return micro_batch % costs.micro_batch == 0 ? bytes * (micro_batch / costs.micro_batch)
                                                : Bytes(std::llround(static_cast<double>(bytes.value) * factor));
  };
  for (LayerCost& layer : result.layers) {
    if (layer.measured)
      for (PassMeasurement* pass : {&layer.measured->forward, &layer.measured->unstashed,
                                    &layer.measured->input_gradient, &layer.measured->weight_gradient}) {
        pass->peak = scaled(pass->peak);
        pass->left = scaled(pass->left);
      }
    for (Seconds* s : {&layer.forward, &layer.input_gradient, &layer.weight_gradient}) *s = *s * factor;
    for (DeviceTime& time : layer.on)
      for (Seconds* s : {&time.forward, &time.input_gradient, &time.weight_gradient}) *s = *s * factor;
    if (layer.measured)
      for (std::optional<Seconds>* s :
           {&layer.measured->batched_weight_gradient, &layer.measured->split_weight_gradient})
        if (*s) *s = **s * factor;
    for (Bytes& bytes : layer.input_bytes) bytes = scaled(bytes);
    layer.output = scaled(layer.output);
    for (std::optional<Bytes>* kept : {&layer.stash, &layer.weight_stash})
      if (*kept) *kept = scaled(**kept);
  }
  return result;
}

CostGraph grouped_costs(const CostGraph& costs, int microbatches_per_op) {
  const std::int64_t micro_batch = microbatches_per_op * costs.micro_batch;
  for (const CostGraph& larger : costs.larger)
    if (larger.micro_batch == micro_batch) return larger;
  return in_proportion(costs, micro_batch);
}

bool is_fused_with_predecessor(const LayerSpec& layer) {
  return is_loss(layer.kind) || std::holds_alternative<Flatten>(layer.kind);
}

int input_channels(const LayerSpec& layer) {
  if (const auto* linear = std::get_if<Linear>(&layer.kind)) return static_cast<int>(linear->in);
  const auto* convolution = std::get_if<Conv2d>(&layer.kind);
  return convolution && convolution->groups == 1 ? static_cast<int>(convolution->in) : 0;
}

namespace {

// The bounds of one layer's numbers.
class Bounds {
 public:
  Bounds(const std::string& where, const std::string& layer) : where_(where), layer_(layer) {}
  void seconds(Seconds s, const char* what) const {
    if (!(s.value >= 0 && s.value <= kMaxOpSeconds))
      fail(what, fmt::format("{:g} seconds", s.value), fmt::format("0 to {:g}", kMaxOpSeconds));
  }
  void bytes(Bytes b, const char* what) const {
    if (b.value < 0 || b.value > kMaxTensorBytes)
      fail(what, fmt::format("{} bytes", b.value), fmt::format("0 to {}", kMaxTensorBytes));
  }

 private:
  [[noreturn]] void fail(const char* what, const std::string& is, const std::string& bounds) const {
    throw InputError(where_, fmt::format("layer '{}': {} of {}", layer_, what, is), "possible are " + bounds);
  }
  const std::string &where_, &layer_;
};

void check_bounds(const LayerVariant& variant, const Bounds& bounds) {
  bounds.seconds(variant.seconds, "time of a variant");
  for (const Bytes b : {variant.parameters, variant.in_flight, variant.always}) bounds.bytes(b, "memory of a variant");
  for (const Bytes b : variant.input_sync) bounds.bytes(b, "message of a variant");
  for (const auto& [consumer, b] : variant.output_sync) bounds.bytes(b, "message of a variant");
}

}  // namespace

void check_bounds(const CostGraph& graph, const std::string& where) {
  if (graph.micro_batch < 1 || graph.micro_batch > kMaxSamples)
    throw InputError(where, fmt::format("a micro-batch of {} samples", graph.micro_batch),
                     fmt::format("possible are 1 to {}", kMaxSamples));
  for (const LayerCost& layer : graph.layers) {
    const Bounds bounds(where, layer.name);
    bounds.seconds(layer.forward, "forward");
    bounds.seconds(layer.input_gradient, "input gradient");
    bounds.seconds(layer.weight_gradient, "weight gradient");
    bounds.seconds(layer.update, "update");
    bounds.bytes(layer.parameters, "parameters");
    bounds.bytes(layer.output, "output");
    bounds.bytes(layer.kept(), "stash");
    bounds.bytes(layer.weight_stash.value_or(Bytes(0)), "weight stash");
    for (const Bytes b : layer.input_bytes) bounds.bytes(b, "input");
    for (const LayerVariant& variant : layer.variants) check_bounds(variant, bounds);
    for (const DeviceTime& time : layer.on)
      for (const Seconds s : {time.forward, time.input_gradient, time.weight_gradient})
        bounds.seconds(s, "time on a device");
  }
  for (const CostGraph& larger : graph.larger) check_bounds(larger, where);
}

}  // namespace sluice
