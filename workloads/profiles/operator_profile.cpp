// dnn-partitioning's JSON (Tarnawski et al., NeurIPS 2020): "maxSizePerFPGA", "maxFPGAs", "maxCPUs", "nodes" {id, name,
// supportedOnFpga, cpuLatency, fpgaLatency, isBackwardNode, colorClass, size} and "edges" {sourceId, destId, cost,
// size}. Flags are true/false or 0/1. All edges out of a node cost the same. Latencies are milliseconds. Costs are
// bytes / 2^31, seconds at 2 GiB/s, in the throughput layer graphs, and bytes / 2147483.648, milliseconds at 2 GiB/s,
// in the others. The quotient of an edge's "size" and cost tells which; in training graphs only the median of all
// quotients does, since the authors made the costs of a node's edges equal afterwards. CPU latencies are made up: 10 or
// 23 times the accelerator's.
#include "workloads/profiles/operator_profile.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"

namespace sluice {

namespace {

bool flag(JsonReader& reader, const std::string& key) {
  const Json& value = reader.raw(key);
  if (value.is_boolean()) return value.get<bool>();
  if (value == 0 || value == 1) return value == 1;
  reader.fail(key, "must be true, false, 0 or 1");
}

constexpr double kBytesPerSecond = 2147483648;  // 2 GiB/s, which the costs assume

}  // namespace

OperatorGraph read_operator_graph(const Json& json, const std::string& file) {
  JsonReader reader(json, file);
  OperatorGraph graph;
  for (const char* limit : {"maxSizePerFPGA", "maxFPGAs", "maxCPUs"}) reader.number(limit, 0, kMaxNumber);
  std::map<std::int64_t, int> number_of;
  std::vector<std::string> names;
  for (JsonReader& r : reader.objects("nodes")) {
    const std::int64_t id = r.integer<std::int64_t>("id", 0, kMaxWhole);
    if (!number_of.try_emplace(id, static_cast<int>(graph.operators.size())).second)
      r.fail("id", std::to_string(id) + " is there twice");
    Operator op{.name = r.text("name", std::to_string(id))};
    op.on_accelerator = flag(r, "supportedOnFpga");
    op.backward = flag(r, "isBackwardNode");
    op.accelerator = r.number("fpgaLatency", 0, kMaxNumber);
    op.cpu = r.number("cpuLatency", 0, kMaxNumber);
    if (r.has("size")) op.bytes = r.number("size", 0, kMaxNumber);
    op.color = r.integer_or("colorClass", -1, 0, kMaxCount);
    names.push_back(op.name);
    graph.operators.push_back(op);
  }
  if (graph.operators.empty()) reader.fail("nodes", "must not be empty");
  std::vector<double> cost(graph.operators.size(), -1);
  for (JsonReader& r : reader.objects("edges")) {
    const auto end = [&](const std::string& key) {
      const auto found = number_of.find(r.integer<std::int64_t>(key, 0, kMaxWhole));
      if (found == number_of.end()) r.fail(key, "there is no such node");
      return found->second;
    };
    const int from = end("sourceId"), to = end("destId");
    if (from == to) r.fail("destId", "a node cannot feed itself");
    const double c = r.number("cost", 0, kMaxNumber);
    double& known = cost[from];
    if (known >= 0 && std::abs(known - c) > 1e-6)
      r.fail("cost", "differs from that of another edge of the same source",
             "all edges of a source must cost the same");
    known = c;
    graph.operators[from].send = c;
    graph.edges.emplace_back(from, to);
  }
  topological_order(graph.edges, names, file);  // throws for a cycle
  return graph;
}

PublishedProfile read_operator_profile(const Json& json, const std::string& file, ProfileUnits units) {
  const OperatorGraph graph = read_operator_graph(json, file);
  const OperatorGroups groups = group_operators(graph);
  std::vector<double> bytes_per_cost;
  if (const Json* const edges = json.find("edges"))  // operators without any are a profile, too
    for (const auto& edge : *edges)
      if (edge.contains("size") && edge["size"].is_number()) {
        const double size = edge["size"].get<double>(), cost = edge["cost"].get<double>();
        if (size > 0 && cost > 0) bytes_per_cost.push_back(size / cost);
      }
  std::ranges::sort(bytes_per_cost);
  const bool cost_in_seconds = !bytes_per_cost.empty() && bytes_per_cost[bytes_per_cost.size() / 2] > 1e8;
  const bool physical = units == ProfileUnits::physical;
  // Bytes of one unit of cost; as published, costs count like latencies, here milliseconds.
  const double cost_bytes = kBytesPerSecond * (cost_in_seconds && physical ? 1 : 1e-3);

  PublishedProfile profile{.costs = {.model = file, .source = "dnn-partitioning profile", .device = "as profiled"}};
  std::vector<int> layer_of(graph.operators.size());
  bool training = false;
  for (std::size_t g = 0; g < groups.members.size(); ++g) {
    LayerCost layer;
    DeviceTime cpu{.device = "cpu"};
    double memory = 0;
    bool accelerator = true;
    for (const int i : groups.members[g]) {
      const Operator& op = graph.operators[i];
      layer_of[i] = static_cast<int>(g);
      if (layer.name.empty() || !op.backward) layer.name += (layer.name.empty() ? "" : "+") + op.name;
      memory += op.bytes;
      accelerator = accelerator && op.on_accelerator;
      training = training || op.backward;
      const Seconds on_accelerator(op.accelerator / 1000), on_cpu(op.cpu / 1000);
      if (op.backward) {
        layer.input_gradient += on_accelerator / 2;
        layer.weight_gradient += on_accelerator / 2;
        cpu.input_gradient += on_cpu / 2;
        cpu.weight_gradient += on_cpu / 2;
      } else {
        layer.forward += on_accelerator;
        cpu.forward += on_cpu;
      }
    }
    if (!accelerator)
      throw InputError(file, "'" + layer.name + "' runs on a CPU only",
                       "costs are of one kind of device: give a latency on the accelerator of every operator");
    layer.parameters = rounded_bytes(memory, file);
    layer.on.push_back(cpu);
    profile.costs.layers.push_back(layer);
  }
  for (const auto& [from, to] : graph.edges) {
    if (graph.operators[from].backward || graph.operators[to].backward || layer_of[from] == layer_of[to]) continue;
    LayerCost& layer = profile.costs.layers[layer_of[to]];
    const Bytes bytes = rounded_bytes(graph.operators[from].send * cost_bytes, file);
    const auto known = std::ranges::find(layer.inputs, layer_of[from]);
    if (known == layer.inputs.end()) {
      layer.inputs.push_back(layer_of[from]);
      layer.input_bytes.push_back(bytes);
    } else {  // another operator of the same group: its output is sent besides
      layer.input_bytes[known - layer.inputs.begin()] += bytes;
    }
    Bytes& output = profile.costs.layers[layer_of[from]].output;
    output = std::max(output, bytes);
  }
  const auto warn = [&](const std::string& text) { profile.warnings.push_back(text); };
  if (cost_in_seconds)
    warn(physical ? "edge costs are seconds at 2 GiB/s while latencies are milliseconds: both read as "
                    "such; the authors' program adds them"
                  : "edge costs are seconds, kept as if they were milliseconds, as the authors' program "
                    "has it");
  warn("bytes between layers are edge costs at 2 GiB/s; node sizes stand for parameters");
  warn(training ? "backward times are split evenly into I and W" : "an inference graph: I and W take no time");
  warn("CPU latencies are made up by the authors (10 or 23 times the accelerator's)");
  return profile;
}

}  // namespace sluice
