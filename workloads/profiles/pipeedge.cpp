// PipeEdge's YAML: models.yml gives, per model, the number of layers, the elements that go in and come out of each
// layer for one sample ("parameters_in", "parameters_out": not weights, whatever their names say) and the megabytes
// that each layer needs; device_types.yml gives, per type of device, its link's Mbit/s, its megabytes, and the seconds
// of every layer's forward for a batch. Inference only. Either file may be named; the other is looked for in its
// folder.
// "FILE#MODEL" picks one of several models.
#include <yaml.h>

#include <cmath>
#include <filesystem>
#include <new>

#include "harness/base/error.h"
#include "harness/base/read_text.h"
#include "workloads/profiles/profile.h"

namespace sluice {

namespace {

constexpr std::size_t kLargestYaml = std::size_t{16} << 20;

// A parsed YAML file; nodes point into it.
class Yaml {
 public:
  explicit Yaml(const std::string& path) : path_(path) {
    const std::string content = read_text(path, kLargestYaml, "PipeEdge's files stand side by side");
    reject_deep(content);
    yaml_parser_t parser;
    if (yaml_parser_initialize(&parser) == 0) throw std::bad_alloc();
    yaml_parser_set_input_string(&parser, reinterpret_cast<const unsigned char*>(content.data()), content.size());
    const bool loaded = yaml_parser_load(&parser, &document_) != 0;
    const std::string problem = parser.problem ? parser.problem : "cannot be read";
    const std::size_t line = parser.problem_mark.line + 1;
    yaml_parser_delete(&parser);
    if (!loaded) throw InputError(path + ":" + std::to_string(line), "is not YAML: " + problem);
    if (!yaml_document_get_root_node(&document_)) {
      yaml_document_delete(&document_);
      throw InputError(path, "is empty");
    }
  }
  Yaml(const Yaml&) = delete;
  Yaml& operator=(const Yaml&) = delete;
  ~Yaml() { yaml_document_delete(&document_); }

  const yaml_node_t* root() { return yaml_document_get_root_node(&document_); }

  [[noreturn]] void fail(const yaml_node_t* node, const std::string& what, const std::string& advice = "") const {
    throw InputError(path_ + ":" + std::to_string(node->start_mark.line + 1), what, advice);
  }

  std::string text(const yaml_node_t* node, const std::string& what) const {
    if (node->type != YAML_SCALAR_NODE) fail(node, what + " must be one value");
    return {reinterpret_cast<const char*>(node->data.scalar.value), node->data.scalar.length};
  }

  double number(const yaml_node_t* node, const std::string& what) const {
    const std::string value = text(node, what);
    char* end = nullptr;
    const double result = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0' || !std::isfinite(result)) fail(node, what + ": '" + value + "' is not a number");
    if (result < 0) fail(node, what + ": " + value + " is negative");
    if (result > 1e12) fail(node, what + ": " + value + " is too large");
    return result;
  }

  std::vector<std::pair<std::string, const yaml_node_t*>> entries(const yaml_node_t* node, const std::string& what) {
    if (node->type != YAML_MAPPING_NODE) fail(node, what + " must be keys with values");
    std::vector<std::pair<std::string, const yaml_node_t*>> result;
    for (auto* pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; ++pair)
      result.emplace_back(text(yaml_document_get_node(&document_, pair->key), "a key"),
                          yaml_document_get_node(&document_, pair->value));
    return result;
  }

  std::vector<const yaml_node_t*> items(const yaml_node_t* node, const std::string& what) {
    if (node->type != YAML_SEQUENCE_NODE) fail(node, what + " must be a list");
    std::vector<const yaml_node_t*> result;
    for (auto* item = node->data.sequence.items.start; item < node->data.sequence.items.top; ++item)
      result.push_back(yaml_document_get_node(&document_, *item));
    return result;
  }

  // Null: there is no such key, or nothing behind it.
  const yaml_node_t* find(const yaml_node_t* node, const std::string& key) {
    for (const auto& [name, value] : entries(node, "this"))
      if (name == key) return value->type == YAML_SCALAR_NODE && value->data.scalar.length == 0 ? nullptr : value;
    return nullptr;
  }

  const yaml_node_t* need(const yaml_node_t* node, const std::string& key) {
    const yaml_node_t* found = find(node, key);
    if (!found) fail(node, "has no '" + key + "'");
    return found;
  }

  std::vector<double> numbers(const yaml_node_t* node, const std::string& what, std::size_t count) {
    std::vector<double> result;
    for (const yaml_node_t* item : items(node, what)) result.push_back(number(item, what));
    if (result.size() != count)
      fail(node, what + " has " + std::to_string(result.size()) + " values for " + std::to_string(count) + " layers");
    return result;
  }

 private:
  // The library's time grows with the square of the number of brackets that are open at once.
  void reject_deep(const std::string& content) const {
    constexpr int deepest = 64;
    int open = 0, line = 1;
    for (const char c : content) {
      line += c == '\n';
      if (c == '[' || c == '{') ++open;
      if ((c == ']' || c == '}') && open > 0) --open;
      if (open > deepest)
        throw InputError(path_ + ":" + std::to_string(line),
                         "more than " + std::to_string(deepest) + " brackets are open at once");
    }
  }

  std::string path_;
  yaml_document_t document_;
};

// The wanted model's entry of models.yml; without a name the only one that has layers.
std::pair<std::string, const yaml_node_t*> pick(Yaml& models, const std::string& wanted, const std::string& path) {
  std::vector<std::string> names;
  std::pair<std::string, const yaml_node_t*> found{"", nullptr};
  for (const auto& [name, node] : models.entries(models.root(), "the file")) {
    if (models.number(models.need(node, "layers"), "layers") < 1) continue;
    names.push_back(name);
    if (wanted.empty() || name == wanted) found = {name, node};
  }
  if (!wanted.empty() && !found.second)
    throw InputError(path, "has no model '" + wanted + "'", suggestion(wanted, names));
  if (names.empty()) throw InputError(path, "has no model with layers");
  if (wanted.empty() && names.size() > 1)
    throw InputError(path, "has several models",
                     "say which: " + path + "#" + names.front() + " (of " + std::to_string(names.size()) + ")");
  return found;
}

}  // namespace

PublishedProfile read_pipeedge_profile(const std::string& path, const std::string& wanted) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const std::string models_path = (folder / "models.yml").string();
  const std::string types_path = (folder / "device_types.yml").string();
  Yaml models(models_path), types(types_path);
  const auto [name, model] = pick(models, wanted, models_path);
  const double layers_number = models.number(models.need(model, "layers"), "layers");
  if (layers_number > 100'000) models.fail(model, "has too many layers");
  const auto layers = static_cast<std::size_t>(layers_number);
  const auto memory = models.numbers(models.need(model, "mem_MB"), "mem_MB", layers);
  const auto elements = models.numbers(models.need(model, "parameters_out"), "parameters_out", layers);

  PublishedProfile profile{.costs = {.model = name, .source = "PipeEdge profile"}};
  profile.costs.layers.resize(layers);
  double batch = 0;
  for (const auto& [type, node] : types.entries(types.root(), "the file")) {
    const yaml_node_t* profiles = types.find(node, "model_profiles");
    const yaml_node_t* measured = profiles ? types.find(profiles, name) : nullptr;
    if (!measured) continue;
    const auto runs = types.items(measured, name);
    if (runs.empty()) continue;
    const yaml_node_t* run = runs.front();
    const double samples = types.number(types.need(run, "batch_size"), "batch_size");
    const yaml_node_t* precision = types.need(run, "dtype");
    if (types.text(precision, "dtype") != "torch.float32")
      types.fail(precision, "only torch.float32 is read, this is " + types.text(precision, "dtype"));
    if (samples > static_cast<double>(kMaxSamples)) types.fail(run, "batch_size is too large");
    if (samples < 1 || (batch > 0 && samples != batch))
      types.fail(run, "batches of " + std::to_string(samples) + " samples",
                 "all devices of a model need one batch size");
    if (runs.size() > 1) profile.warnings.push_back(type + " has several measurements of the model: the first is read");
    batch = samples;
    const auto seconds = types.numbers(types.need(run, "time_s"), "time_s", layers);
    for (std::size_t l = 0; l < layers; ++l) {
      LayerCost& layer = profile.costs.layers[l];
      if (profile.costs.device.empty()) layer.forward = Seconds(seconds[l]);
      layer.on.push_back({type, Seconds(seconds[l]), Seconds(0), Seconds(0)});
    }
    if (profile.costs.device.empty()) profile.costs.device = type;
  }
  if (batch == 0) throw InputError(types_path, "no device has measured '" + name + "'");
  profile.costs.micro_batch = static_cast<std::int64_t>(batch);
  for (std::size_t l = 0; l < layers; ++l) {
    LayerCost& layer = profile.costs.layers[l];
    layer.name = "layer" + std::to_string(l + 1);  // the files count from 1
    layer.inputs = {static_cast<int>(l) - 1};
    layer.parameters = rounded_bytes(memory[l] * 1e6, models_path);
    layer.output = rounded_bytes(elements[l] * batch * 4, models_path);
  }
  if (const yaml_node_t* in = models.find(model, "parameters_in"))
    profile.costs.layers.front().input_bytes = {Bytes(std::llround(models.number(in, "parameters_in") * batch * 4))};
  profile.warnings.push_back("an inference profile: I and W take no time");
  profile.warnings.push_back("mem_MB, what a layer needs in memory, stands for its parameters");
  profile.warnings.push_back("parameters_out are elements of one sample: " + std::to_string(profile.costs.micro_batch) +
                             " samples of 4 bytes each");
  return profile;
}

}  // namespace sluice
