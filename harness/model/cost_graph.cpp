#include "harness/model/cost_graph.h"

#include <algorithm>
#include <charconv>

#include "harness/base/json_reader.h"

namespace sluice {

namespace {

// Fractions of the datasheet's peak that kernels reach: planning values, replaced by `sluice
// profile`.
double efficiency(const LayerKind& kind) {
  if (std::holds_alternative<Conv2d>(kind)) return 0.55;
  if (std::holds_alternative<Attention>(kind) || std::holds_alternative<CrossAttention>(kind)) return 0.45;
  return 0.75;
}
constexpr double kStreaming = 0.8;  // of the memory bandwidth

}  // namespace

CostGraph analytic_costs(const ModelGraph& model, std::int64_t micro_batch, const Device& device) {
  const std::vector<Shape> shapes = model.shapes();
  CostGraph graph{
      .model = model.name, .source = "analytic", .device = device.name, .micro_batch = micro_batch, .layers = {}};
  const double samples = static_cast<double>(micro_batch);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const LayerSpec& layer = model.layers[i];
    std::vector<Shape> inputs;
    double input_bytes = 0;
    for (const int p : layer.inputs) {
      inputs.push_back(p < 0 ? model.inputs[static_cast<std::size_t>(-1 - p)].shape
                             : shapes[static_cast<std::size_t>(p)]);
      input_bytes += 4 * samples * static_cast<double>(elements(inputs.back()));
    }
    const LayerFlops work = flops(layer, inputs);
    const double weight_bytes = 4 * static_cast<double>(parameter_count(layer));
    const Bytes out = output_bytes(model, shapes, static_cast<int>(i), micro_batch);
    // A look-up reads (and its weight gradient writes) rows, not the table; ids take no gradient.
    const bool looks_up = std::holds_alternative<Embedding>(layer.kind);
    const double weights_touched = looks_up ? static_cast<double>(out.value) : weight_bytes;
    const double streamed = input_bytes + static_cast<double>(out.value) + weights_touched;
    const auto seconds = [&](Flops per_sample, double bytes) {
      if (bytes == 0) return Seconds(0);
      const double compute = per_sample.value * samples / (device.flops * efficiency(layer.kind));
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
    cost.update =
        Seconds(3 * weight_bytes / (device.memory_bandwidth * kStreaming));  // read weight, gradient; write weight
    cost.parameters = Bytes(static_cast<std::int64_t>(weight_bytes));
    cost.output = out;
    cost.fused = is_fused_with_predecessor(layer);
    graph.layers.push_back(cost);
  }
  return graph;
}

CostGraph grouped_costs(const CostGraph& costs, int micros_per_op) {
  for (const CostGraph& larger : costs.larger)
    if (larger.micro_batch == micros_per_op * costs.micro_batch) return larger;
  CostGraph result = costs;
  result.larger.clear();
  result.micro_batch *= micros_per_op;
  for (LayerCost& layer : result.layers) {
    for (Seconds* s : {&layer.forward, &layer.input_gradient, &layer.weight_gradient}) *s = *s * micros_per_op;
    layer.output = layer.output * micros_per_op;
  }
  return result;
}

bool is_fused_with_predecessor(const LayerSpec& layer) {
  return is_loss(layer.kind) || std::holds_alternative<Flatten>(layer.kind);
}

static nlohmann::json bytes_json(const std::vector<Bytes>& bytes) {
  nlohmann::json json = nlohmann::json::array();
  for (const Bytes b : bytes) json.push_back(b.value);
  return json;
}

static nlohmann::json to_json(const LayerVariant& v) {
  nlohmann::json output_sync = nlohmann::json::object();
  for (const auto& [consumer, bytes] : v.output_sync) output_sync[std::to_string(consumer)] = bytes.value;
  nlohmann::json json = {{"tensor", v.tensor},
                         {"id", v.id},
                         {"seconds", v.seconds.value},
                         {"parameters", v.parameters.value},
                         {"in_flight", v.in_flight.value},
                         {"always", v.always.value},
                         {"input_sync", bytes_json(v.input_sync)},
                         {"output_sync", output_sync}};
  if (v.recompute) json["recompute"] = true;
  return json;
}

nlohmann::json to_json(const CostGraph& graph) {
  nlohmann::json layers = nlohmann::json::array();
  for (const LayerCost& l : graph.layers) {
    layers.push_back({{"name", l.name},
                      {"inputs", l.inputs},
                      {"forward", l.forward.value},
                      {"input_gradient", l.input_gradient.value},
                      {"weight_gradient", l.weight_gradient.value},
                      {"update", l.update.value},
                      {"parameters", l.parameters.value},
                      {"output", l.output.value},
                      {"rides", l.fused}});
    nlohmann::json& layer = layers.back();
    if (!l.input_bytes.empty()) layer["input_bytes"] = bytes_json(l.input_bytes);
    for (const LayerVariant& v : l.variants) layer["variants"].push_back(to_json(v));
    for (const DeviceTime& t : l.on)
      layer["on"].push_back({{"device", t.device},
                             {"forward", t.forward.value},
                             {"input_gradient", t.input_gradient.value},
                             {"weight_gradient", t.weight_gradient.value}});
  }
  return {{"schema", "sluice/cost_graph/1"},  {"model", graph.model},
          {"source", graph.source},           {"device", graph.device},
          {"micro_batch", graph.micro_batch}, {"layers", layers}};
}

// An array of byte counts, one per input of the layer; absent: empty.
static std::vector<Bytes> bytes_per_input(JsonReader& reader, const std::string& key, std::size_t inputs) {
  std::vector<Bytes> result;
  if (!reader.has(key)) return result;
  const nlohmann::json& json = reader.raw(key);
  if (!json.is_array() || (!json.empty() && json.size() != inputs))
    reader.fail(key, "must be an array with one number of bytes per input");
  for (const auto& entry : json) {
    if (!entry.is_number_integer() || entry.get<std::int64_t>() < 0) reader.fail(key, "must hold numbers of bytes");
    result.emplace_back(entry.get<std::int64_t>());
  }
  return result;
}

static Seconds not_negative(JsonReader& reader, const char* key) {
  const double s = reader.number(key);
  if (s < 0) reader.fail(key, "must not be negative");
  return Seconds(s);
}

static LayerVariant variant_from_json(JsonReader& reader, std::size_t inputs) {
  LayerVariant v;
  v.tensor = static_cast<int>(reader.integer("tensor", 1));
  v.id = reader.text("id");
  v.seconds = not_negative(reader, "seconds");
  v.parameters = Bytes(reader.integer("parameters", 0));
  v.in_flight = Bytes(reader.integer("in_flight", 0));
  v.always = Bytes(reader.integer("always", 0));
  v.input_sync = bytes_per_input(reader, "input_sync", inputs);
  JsonReader syncs = reader.object("output_sync");
  for (const auto& [consumer, bytes] : syncs.json().items()) {
    int number = -1;
    const auto [end, error] = std::from_chars(consumer.data(), consumer.data() + consumer.size(), number);
    if (error != std::errc() || end != consumer.data() + consumer.size() || number < 0)
      syncs.fail(consumer, "is not the number of a layer");
    v.output_sync[number] = Bytes(syncs.integer(consumer, 0));
  }
  v.recompute = reader.boolean("recompute", false);
  reader.no_other_keys();
  return v;
}

CostGraph cost_graph_from_json(const nlohmann::json& json, const std::string& where) {
  JsonReader reader(json, where);
  if (reader.text("schema") != "sluice/cost_graph/1")
    reader.fail("schema", "is not 'sluice/cost_graph/1'", "make the file with sluice profile");
  CostGraph graph;
  graph.model = reader.text("model");
  graph.source = reader.text("source");
  graph.device = reader.text("device");
  graph.micro_batch = reader.integer("micro_batch", 1);
  for (JsonReader& l : reader.objects("layers")) {
    LayerCost cost;
    cost.name = l.text("name");
    const nlohmann::json& inputs = l.raw("inputs");
    if (!inputs.is_array()) l.fail("inputs", "must be an array of layer numbers");
    for (const auto& input : inputs) {
      if (!input.is_number_integer() || input.get<std::int64_t>() >= static_cast<std::int64_t>(graph.layers.size()) ||
          input.get<std::int64_t>() < -1000)
        l.fail("inputs", "must name earlier layers (or -1, -2, ... for the model's inputs)",
               "the graph must not be cyclic");
      cost.inputs.push_back(input.get<int>());
    }
    cost.forward = not_negative(l, "forward");
    cost.input_gradient = not_negative(l, "input_gradient");
    cost.weight_gradient = not_negative(l, "weight_gradient");
    cost.update = not_negative(l, "update");
    cost.parameters = Bytes(l.integer("parameters", 0));
    cost.output = Bytes(l.integer("output", 0));
    cost.fused = l.boolean("rides", false);
    cost.input_bytes = bytes_per_input(l, "input_bytes", cost.inputs.size());
    for (JsonReader& v : l.objects("variants")) cost.variants.push_back(variant_from_json(v, cost.inputs.size()));
    for (JsonReader& d : l.objects("on")) {
      DeviceTime time{d.text("device"), not_negative(d, "forward"), not_negative(d, "input_gradient"),
                      not_negative(d, "weight_gradient")};
      d.no_other_keys();
      cost.on.push_back(time);
    }
    l.no_other_keys();
    graph.layers.push_back(cost);
  }
  if (graph.layers.empty()) reader.fail("layers", "must not be empty");
  reader.no_other_keys();
  return graph;
}

}  // namespace sluice
