// CostGraph as JSON holds it, "sluice/cost_graph/1": see harness/base/json_fields.h. Members of where(true, ...) are
// always written and lacking in files of earlier versions.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "harness/base/json_fields.h"
#include "harness/base/numbers.h"
#include "harness/model/cost_graph.h"

namespace sluice {

static constexpr FieldForm kSecondsForm{"", 0, kMaxSeconds}, kBytesForm{"", 0, static_cast<double>(kMaxBytes)},
    kCountForm{"", 0, kMaxCount}, kFactorForm{"", 0, kMaxNumber};
static constexpr const char* kAboveZero = "must be greater than 0";
static constexpr const char* kOnePerInput = "must be an array with one number of bytes per input";

void fields(auto& v, PassMeasurement& p) {
  v("contended", p.contended, kFactorForm);
  v.expect(p.contended > 0, "contended", kAboveZero, "");
  v.where(true, "half", p.half, kFactorForm);
  v.expect(p.half > 0, "half", kAboveZero, "");
  v("spread", p.spread, kFactorForm);
  v("peak", p.peak, kBytesForm);
  v("left", p.left, {"", -kBytesForm.most, kBytesForm.most});  // negative where a pass frees more than it makes
}

void fields(auto& v, LayerMeasurement& m) {
  v("forward", m.forward);
  v("unstashed", m.unstashed);
  v("input_gradient", m.input_gradient);
  v("weight_gradient", m.weight_gradient);
  v("update", m.update);
  v("clear", m.clear, kSecondsForm);
  v.where(true, "keeps_output", m.keeps_output);
  v.if_any("batched_weight_gradient", m.batched_weight_gradient, kSecondsForm);
  v.if_any("split_weight_gradient", m.split_weight_gradient, kSecondsForm);
}

void fields(auto& v, BetweenProcesses& p) {
  v("message", p.message, kSecondsForm);
  v("byte", p.byte, kSecondsForm);
  v("reduce", p.reduce, kSecondsForm);
  v("gather", p.gather, kSecondsForm);
  v("scatter", p.scatter, kSecondsForm);
}

void fields(auto& v, MachineCosts::Apart& a) {
  v("forward", a.forward, kFactorForm);
  v.expect(a.forward > 0, "forward", kAboveZero, "");
  v("input_gradient", a.input_gradient, kFactorForm);
  v.expect(a.input_gradient > 0, "input_gradient", kAboveZero, "");
  v("weight_gradient", a.weight_gradient, kFactorForm);
  v.expect(a.weight_gradient > 0, "weight_gradient", kAboveZero, "");
}

void fields(auto& v, MachineSpeeds& s) {
  v("arithmetic", s.arithmetic, kFactorForm);
  v.expect(s.arithmetic > 0, "arithmetic", kAboveZero, "");
  v("memory", s.memory, kFactorForm);
  v.expect(s.memory > 0, "memory", kAboveZero, "");
  v("message", s.message, kFactorForm);
  v.expect(s.message > 0, "message", kAboveZero, "");
}

template <class V>
void fields(V& v, MachineCosts& m) {
  v("machine", m.machine);
  v("build", m.build);
  v("made", m.made);
  v("neighbours", m.neighbours, kCountForm);
  v.where(true, "batched_microbatches", m.batched_microbatches, kCountForm);
  v("send", m.send, kSecondsForm);
  v("receive", m.receive, kSecondsForm);
  v("wake_up", m.wake_up, kSecondsForm);
  v("spin_time", m.spin_time, kSecondsForm);
  v("notify", m.notify, kSecondsForm);
  v("forward_op", m.forward_op, kSecondsForm);
  v("backward_op", m.backward_op, kSecondsForm);
  v("weight_gradient_op", m.weight_gradient_op, kSecondsForm);
  v("copy", m.copy, kSecondsForm);
  v("reduce", m.reduce, kSecondsForm);
  v("gather", m.gather, kSecondsForm);
  v("scatter", m.scatter, kSecondsForm);
  v("predict", m.predict, kSecondsForm);
  v.where(true, "apart", m.apart);
  v.where(true, "processes", m.processes);
  v.if_any("speeds", m.speeds);
  if constexpr (std::same_as<V, FieldReader>)
    for (const char* name : {"process_message", "process_byte"})  // of an earlier version, which never measured them
      v.in().number_or(name, 0, 0, kMaxSeconds);
}

template <class V>
void fields(V& v, LayerVariant& l) {
  v("tensor", l.tensor, {"", 1, kMaxCount});
  v("id", l.id);
  v("seconds", l.seconds, kSecondsForm);
  v("parameters", l.parameters, kBytesForm);
  v("in_flight", l.in_flight, kBytesForm);
  v("always", l.always, kBytesForm);
  v.where(true, "input_sync", l.input_sync, kBytesForm);
  std::map<std::string, Bytes> output_sync;
  for (const auto& [consumer, bytes] : l.output_sync) output_sync[std::to_string(consumer)] = bytes;
  v("output_sync", output_sync, kBytesForm);
  if constexpr (std::same_as<V, FieldReader>)
    for (const auto& [text, bytes] : output_sync) {
      const std::int64_t consumer = whole_number_in(text).value_or(-1);
      if (consumer < 0 || consumer > kMaxCount) v.in().fail("output_sync/" + text, "is not the number of a layer");
      l.output_sync[static_cast<int>(consumer)] = bytes;
    }
  v.if_any("recompute", l.recompute);
}

void fields(auto& v, DeviceTime& t) {
  v("device", t.device);
  v("forward", t.forward, kSecondsForm);
  v("input_gradient", t.input_gradient, kSecondsForm);
  v("weight_gradient", t.weight_gradient, kSecondsForm);
}

void fields(auto& v, LayerCost& l) {
  v("name", l.name);
  v("inputs", l.inputs, {"", -1000, kMaxCount});
  v("forward", l.forward, kSecondsForm);
  v("input_gradient", l.input_gradient, kSecondsForm);
  v("weight_gradient", l.weight_gradient, kSecondsForm);
  v("update", l.update, kSecondsForm);
  v("parameters", l.parameters, kBytesForm);
  v.if_any("frozen", l.frozen, kBytesForm);
  v("output", l.output, kBytesForm);
  v.where(true, "rides", l.fused);
  v.if_any("stash", l.stash, kBytesForm);
  v.if_any("weight_stash", l.weight_stash, kBytesForm);
  v.if_any("part", l.part);
  v.if_any("pair_share", l.pair_share, {"", kMinPairShare, kMaxPairShare});
  v.if_any("input_channels", l.input_channels, kCountForm);
  v.if_any("input_bytes", l.input_bytes, kBytesForm);
  v.expect(l.input_bytes.empty() || l.input_bytes.size() == l.inputs.size(), "input_bytes", kOnePerInput, "");
  v.if_any("variants", l.variants);
  v.if_any("on", l.on);
  v.if_any("measured", l.measured);
}

void fields(auto& v, CostGraph& g) {
  v("model", g.model);
  v("source", g.source);
  v("device", g.device);
  v("micro_batch", g.micro_batch, {"", 1, kMaxCount});
  v("layers", g.layers);
  v.if_any("machine", g.machine);
}

Json to_json(const BetweenProcesses& processes) { return write_fields(processes); }
BetweenProcesses between_processes_from_json(JsonReader& reader) { return read_fields<BetweenProcesses>(reader, ""); }

Json to_json(const CostGraph& graph) {
  Json json = write_fields(graph);
  json["schema"] = "sluice/cost_graph/1";
  return json;
}

CostGraph cost_graph_from_json(const Json& json, const std::string& where) {
  JsonReader reader(json, where);
  if (reader.text("schema") != "sluice/cost_graph/1")
    reader.fail("schema", "is not 'sluice/cost_graph/1'", "make the file with sluice profile");
  CostGraph graph = read_fields<CostGraph>(reader, "");
  if (graph.layers.empty()) reader.fail("layers", "must not be empty");
  for (std::size_t l = 0; l < graph.layers.size(); ++l) {
    const LayerCost& layer = graph.layers[l];
    const std::string place = fmt::format("layers/{}/", l);
    for (const int input : layer.inputs)
      if (input >= static_cast<int>(l))
        reader.fail(place + "inputs", "must name earlier layers (or -1, -2, ... for the model's inputs)",
                    "the graph must not be cyclic");
    if (layer.frozen > layer.parameters)
      reader.fail(place + "frozen", fmt::format("is {} bytes, more than the layer's parameters", layer.frozen.value),
                  fmt::format("give 0 to {}", layer.parameters.value));
    for (std::size_t v = 0; v < layer.variants.size(); ++v) {
      const LayerVariant& variant = layer.variants[v];
      if (!variant.input_sync.empty() && variant.input_sync.size() != layer.inputs.size())
        reader.fail(fmt::format("{}variants/{}/input_sync", place, v), kOnePerInput);
      for (const auto& [consumer, bytes] : variant.output_sync)
        if (consumer >= std::ssize(graph.layers) ||
            std::ranges::count(graph.layers[consumer].inputs, static_cast<int>(l)) == 0)
          reader.fail(fmt::format("{}variants/{}/output_sync/{}", place, v, consumer),
                      fmt::format("layer {} does not read layer {}'s output", consumer, l),
                      "name a layer that has it among its inputs");
    }
  }
  check_bounds(graph, where);
  return graph;
}

}  // namespace sluice
