// Piper's JSON: a DAG of nodes, each with variants ("TMPCs") per tensor-parallel degree, and edges with bytes.
// "timePerSample" is forward and backward of one micro-batch; "syncTimeFw" and "syncTimeBw" are bytes, whatever their
// names say, with a key per incoming and outgoing edge. bert32a100.json has seconds; gnmt.json and resnet.json have
// milliseconds, which the authors' program adds to bytes / bandwidth in seconds all the same.
#include <cmath>
#include <map>
#include <set>

#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/numbers.h"
#include "workloads/profiles/profile.h"

namespace sluice {

namespace {

Bytes bytes(JsonReader& reader, const std::string& key) {
  return Bytes(std::llround(reader.number(key, 0, static_cast<double>(kMaxBytes))));
}

int whole(const std::string& text, JsonReader& reader) {
  const auto value = number_as<int>(text);
  if (!value || *value < 0) reader.fail(text, "the key must be a whole number");
  return *value;
}

struct Edge {
  int from = 0, to = 0;  // node numbers in the file's order
  Bytes bytes;
};

struct Nodes {
  std::vector<int> ids;
  std::map<int, int> number_of;  // id -> place in the file
  std::vector<std::vector<Edge>> in, out;
};

// Bytes of every edge of `edges` by the id at the other end, in their order.
std::vector<Bytes> sync_bytes(JsonReader reader, const std::vector<Edge>& edges, bool in, const Nodes& nodes) {
  std::map<int, Bytes> by_id;
  for (const auto& [key, ignored] : reader.json().items()) by_id[whole(key, reader)] = bytes(reader, key);
  std::vector<Bytes> result;
  for (const Edge& e : edges) {
    const int id = nodes.ids[in ? e.from : e.to];
    const auto found = by_id.find(id);
    if (found == by_id.end()) reader.fail(std::to_string(id), "is missing", "every edge of the node needs a key");
    result.push_back(found->second);
    by_id.erase(found);
  }
  if (!by_id.empty()) reader.fail(std::to_string(by_id.begin()->first), "there is no such edge");
  return result;
}

}  // namespace

PublishedProfile read_piper_profile(const Json& json, const std::string& file, ProfileUnits units) {
  JsonReader reader(json, file);
  PublishedProfile profile{.costs = {.model = file, .source = "Piper profile", .device = "as profiled"}};
  profile.microbatches = reader.integer("mbsInBatch", 1, kMaxCount);
  // The authors' program overrides these, too.
  for (const char* limit : {"bandwidth", "maxMemoryPerDevice", "maxDevices"}) reader.above_zero(limit, kMaxNumber);

  Nodes nodes;
  std::vector<JsonReader> node_readers = reader.objects("nodes");
  std::vector<std::string> names;
  for (JsonReader& r : node_readers) {
    const int id = r.integer("id", 0, kMaxCount);
    if (!nodes.number_of.try_emplace(id, static_cast<int>(nodes.ids.size())).second)
      r.fail("id", std::to_string(id) + " is there twice");
    nodes.ids.push_back(id);
    names.push_back(r.text("name", "") + " " + std::to_string(id));
  }
  if (nodes.ids.empty()) reader.fail("nodes", "must not be empty");
  nodes.in.resize(nodes.ids.size());
  nodes.out.resize(nodes.ids.size());
  std::vector<std::pair<int, int>> ends;
  std::set<std::pair<int, int>> seen;
  for (JsonReader& r : reader.objects("edges")) {
    const auto end = [&](const std::string& key) {
      const auto found = nodes.number_of.find(r.integer(key, 0, kMaxCount));
      if (found == nodes.number_of.end()) r.fail(key, "there is no such node");
      return found->second;
    };
    const Edge e{end("sourceId"), end("destId"), bytes(r, "communicationCost")};
    if (!seen.insert({e.from, e.to}).second) r.fail("destId", "the edge is there twice");
    ends.emplace_back(e.from, e.to);
    nodes.out[e.from].push_back(e);
    nodes.in[e.to].push_back(e);
  }
  const std::vector<int> order = topological_order(ends, names, file);
  std::vector<int> layer_of(nodes.ids.size());
  for (std::size_t l = 0; l < order.size(); ++l) layer_of[order[l]] = static_cast<int>(l);

  double total = 0;
  for (std::size_t l = 0; l < order.size(); ++l) {
    const int n = order[l];
    LayerCost layer{.name = names[n]};
    for (const Edge& e : nodes.in[n]) {
      layer.inputs.push_back(layer_of[e.from]);
      layer.input_bytes.push_back(e.bytes);
    }
    std::set<Bytes> sent;
    for (const Edge& e : nodes.out[n]) {
      layer.output = std::max(layer.output, e.bytes);
      sent.insert(e.bytes);
    }
    if (sent.size() > 1)
      profile.warnings.push_back("node '" + names[n] +
                                 "' sends different numbers of bytes to its readers; kept as published");
    JsonReader degrees = node_readers[n].object("TMPCs");
    std::map<int, std::string> keys;  // by degree: texts sort "16" before "2"
    for (const auto& [key, ignored] : degrees.json().items()) {
      const int tensor = whole(key, degrees);
      if (tensor < 1) degrees.fail(key, "a tensor-parallel degree is at least 1");
      keys[tensor] = key;
    }
    for (const auto& [tensor, key] : keys)
      for (JsonReader& r : degrees.objects(key)) {
        LayerVariant v{.tensor = tensor, .id = r.text("id")};
        v.recompute = v.id.find("recomp") != std::string::npos;  // the format says it by the name alone
        v.seconds = Seconds(r.number("timePerSample", 0, kMaxSeconds));
        v.parameters = bytes(r, "parameterSize");
        v.in_flight = bytes(r, "memoryUsageA");
        v.always = bytes(r, "memoryUsageB");
        v.input_sync = sync_bytes(r.object("syncTimeFw"), nodes.in[n], true, nodes);
        const auto sync = sync_bytes(r.object("syncTimeBw"), nodes.out[n], false, nodes);
        for (std::size_t i = 0; i < sync.size(); ++i) v.output_sync[layer_of[nodes.out[n][i].to]] = sync[i];
        layer.variants.push_back(v);
      }
    if (layer.variants.empty()) node_readers[n].fail("TMPCs", "gives no way to run the node");
    const LayerVariant& plain = layer.variants.front();
    layer.parameters = plain.parameters;
    total += plain.seconds.value;
    profile.costs.layers.push_back(layer);
  }

  // No published micro-batch takes a minute on one accelerator.
  const bool milliseconds = total > 60;
  const double scale = milliseconds && units == ProfileUnits::physical ? 1e-3 : 1;
  for (LayerCost& layer : profile.costs.layers) {
    for (LayerVariant& v : layer.variants) v.seconds = v.seconds * scale;
    const Seconds third = layer.variants.front().seconds / 3;
    layer.forward = layer.input_gradient = layer.weight_gradient = third;
  }
  if (milliseconds)
    profile.warnings.push_back("timePerSample adds up to " + std::to_string(total) +
                               (units == ProfileUnits::physical
                                    ? ": milliseconds, read as such; the authors' program adds them "
                                      "to seconds of communication"
                                    : ": milliseconds, kept as if they were seconds, as the authors' "
                                      "program has it"));
  profile.warnings.push_back("the file has one time for forward and backward: a third each for F, I and W");
  return profile;
}

}  // namespace sluice
