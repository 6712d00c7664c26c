// PipeDream's graph text (its graph/graph.py writes and reads it): node lines
//   node12 -- Conv2d(...) -- forward_compute_time=1.5, backward_compute_time=2.5, activation_size=8.0,
//   parameter_size=4.0 -- stage_id=0
// on one line each (the last part is optional; an activation size may be a list "[1.0; 2.0]", whose sum counts) and
// edge lines that begin with a blank: "\tnode1 -- node2". Times are milliseconds of one mini-batch, sizes bytes. The
// order of lines means nothing.
#include <map>
#include <optional>
#include <sstream>

#include "harness/base/error.h"
#include "harness/base/numbers.h"
#include "harness/base/split.h"
#include "workloads/profiles/profile.h"

namespace sluice {

namespace {

struct Node {
  std::string id, description;
  double forward = 0, backward = 0;  // milliseconds
  double activation = 0, parameters = 0;
  int line = 0;
};

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

double number(const std::string& text, const std::string& key, const std::string& where) {
  const std::string value = trimmed(text);
  const std::optional<double> result = number_in(value);
  if (!result) throw InputError(where, key + ": '" + value + "' is not a number");
  if (*result < 0) throw InputError(where, key + ": " + value + " is negative");
  return *result;
}

Node parse_node(const std::string& line, const std::string& where) {
  const std::vector<std::string> parts = split(line, " -- ");
  if (parts.size() != 3 && parts.size() != 4)
    throw InputError(where, "a node line has 3 or 4 parts between ' -- ', this one " + std::to_string(parts.size()),
                     "edges begin with a blank");
  Node node{.id = trimmed(parts[0]), .description = trimmed(parts[1])};
  if (node.id.empty()) throw InputError(where, "the node has no id");
  std::map<std::string, double*> wanted = {{"forward_compute_time", &node.forward},
                                           {"backward_compute_time", &node.backward},
                                           {"activation_size", &node.activation},
                                           {"parameter_size", &node.parameters}};
  for (const std::string& field : split(parts[2], ", ")) {
    const std::size_t equals = field.find('=');
    const std::string key = trimmed(field.substr(0, equals));
    const auto found = wanted.find(key);
    if (equals == std::string::npos || found == wanted.end())
      throw InputError(where, "'" + trimmed(field) + "' is no field of a node, or is there twice",
                       "known: forward_compute_time, backward_compute_time, activation_size, "
                       "parameter_size");
    std::string value = trimmed(field.substr(equals + 1));
    if (value.starts_with('[') && value.ends_with(']')) {
      for (const std::string& part : split(value.substr(1, value.size() - 2), ";"))
        *found->second += number(part, key, where);
    } else {
      *found->second = number(value, key, where);
    }
    wanted.erase(found);
  }
  if (!wanted.empty()) throw InputError(where, "has no " + wanted.begin()->first);
  return node;
}

struct Graph {
  std::vector<Node> nodes;
  std::vector<std::pair<int, int>> edges;
};

Graph parse(const std::string& text, const std::string& file) {
  Graph graph;
  std::map<std::string, int> index;
  struct EdgeLine {
    std::string text, where;
  };
  std::vector<EdgeLine> edge_lines;
  std::istringstream in(text);
  int line_number = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string where = file + ":" + std::to_string(++line_number);
    if (trimmed(line).empty()) continue;
    if (line[0] == '\t' || line[0] == ' ') {
      edge_lines.push_back({trimmed(line), where});
      continue;
    }
    Node node = parse_node(trimmed(line), where);
    node.line = line_number;
    if (!index.try_emplace(node.id, static_cast<int>(graph.nodes.size())).second)
      throw InputError(where, "node '" + node.id + "' is there twice");
    graph.nodes.push_back(node);
  }
  for (const auto& [line, where] : edge_lines) {
    const std::vector<std::string> ends = split(line, " -- ");
    if (ends.size() != 2) throw InputError(where, "an edge line is 'SOURCE -- READER'");
    const auto end = [&](const std::string& id) {
      const auto found = index.find(trimmed(id));
      if (found == index.end()) throw InputError(where, "node '" + trimmed(id) + "' does not exist");
      return found->second;
    };
    graph.edges.emplace_back(end(ends[0]), end(ends[1]));
  }
  return graph;
}

}  // namespace

PublishedProfile read_pipedream_profile(const std::string& text, const std::string& file) {
  const Graph graph = parse(text, file);
  const std::size_t n = graph.nodes.size();
  PublishedProfile profile{.costs = {.source = "PipeDream profile", .device = "as profiled"}};
  profile.costs.model = file;
  const auto warn = [&](const std::string& text_of_it) { profile.warnings.push_back(text_of_it); };

  // As the authors' optimizer: inputs and unread __getitem__ nodes are no layers to place.
  std::vector<bool> read(n), fed(n), dropped(n);
  for (const auto& [from, to] : graph.edges) {
    read[from] = true;
    fed[to] = true;
  }
  std::vector<int> model_input(n, 0);
  double loading = 0;
  int inputs = 0, unread = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (!fed[i] && graph.nodes[i].description.starts_with("Input")) {
      dropped[i] = true;
      model_input[i] = -1 - inputs++;
      loading += graph.nodes[i].forward + graph.nodes[i].backward;
    } else if (!read[i] && graph.nodes[i].description.starts_with("__getitem__")) {
      dropped[i] = true;
      ++unread;
    }
  }
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.id);
  const std::vector<int> order = topological_order(graph.edges, names, file);
  std::vector<int> layer_of(n, -1);
  for (const int i : order) {
    if (dropped[i]) continue;
    const Node& node = graph.nodes[i];
    LayerCost layer{.name = node.id + " " + node.description};
    layer.forward = Seconds(node.forward / 1000);
    const bool weights = node.parameters > 0;
    layer.input_gradient = Seconds(node.backward / 1000 / (weights ? 2 : 1));
    layer.weight_gradient = Seconds(weights ? node.backward / 1000 / 2 : 0);
    layer.parameters = rounded_bytes(node.parameters, file);
    layer.output = rounded_bytes(node.activation, file);
    layer_of[i] = static_cast<int>(profile.costs.layers.size());
    profile.costs.layers.push_back(layer);
  }
  for (const auto& [from, to] : graph.edges) {
    if (layer_of[to] < 0) continue;
    profile.costs.layers[layer_of[to]].inputs.push_back(layer_of[from] >= 0 ? layer_of[from] : model_input[from]);
  }
  if (profile.costs.layers.empty()) throw InputError(file, "has no layer");
  if (inputs > 0)
    warn(std::to_string(inputs) + " Input node(s) are the model's inputs and no layers: " +
         to_text(Seconds(loading / 1000)) + " of data loading left out");
  if (unread > 0) warn(std::to_string(unread) + " __getitem__ node(s) that nothing reads left out");
  warn(
      "times are of one whole mini-batch, whose samples the file does not give; a micro-batch here "
      "is that mini-batch");
  warn("the file has one backward time: split evenly into I and W for layers with weights");
  return profile;
}

}  // namespace sluice
