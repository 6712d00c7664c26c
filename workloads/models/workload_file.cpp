#include "workloads/models/workload_file.h"

#include <algorithm>
#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/base/numbers.h"
#include "harness/base/quantities.h"
#include "harness/model/fold_layers.h"
#include "harness/model/model_json.h"
#include "workloads/models/hugging_face.h"

namespace sluice {

namespace {

constexpr int kMaxEpochs = 1'000'000;

bool learns_classes(const ModelGraph& model) {
  return std::holds_alternative<CrossEntropyLoss>(model.layers.back().kind);
}

void check_trains(const ModelGraph& model, JsonReader& reader, const std::string& key) {
  if (!is_loss(model.layers.back().kind))
    reader.fail(key, "the last layer, '" + model.layers.back().name + "', is no loss",
                R"(end the layers with {"name": "loss", "kind": "CrossEntropyLoss"} or MseLoss)");
  if (model.layers.size() < 2) reader.fail(key, "has a loss and nothing else", "give the layers before it");
}

std::string folder_of(const std::string& file) { return std::filesystem::path(file).parent_path().string(); }

// FILE#LENGTH: a file, and the sequence length that a Hugging Face config is read with.
struct ModelPath {
  std::string file;
  std::string length;  // "": none given
};

ModelPath split(const std::string& path) {
  std::error_code ignored;
  const std::size_t mark = path.rfind('#');
  if (mark == std::string::npos || std::filesystem::is_regular_file(path, ignored)) return {path, ""};
  return {path.substr(0, mark), path.substr(mark + 1)};
}

HuggingFaceModel read_config(const Json& json, const ModelPath& path) {
  constexpr std::int64_t kMaxSequence = 10'000'000;
  std::optional<std::int64_t> length;
  if (!path.length.empty()) {
    length = whole_number_in(path.length);
    if (!length || *length < 1 || *length > kMaxSequence)
      throw InputError(
          path.file + "#" + path.length, "'" + path.length + "' is no sequence length",
          "give the tokens of a sample, 1 to " + std::to_string(kMaxSequence) + ", e.g. " + path.file + "#2048");
  }
  return read_hugging_face_config(json, path.file, length);
}

// The model itself, or the name of its file, in the same folder as this one.
ModelGraph read_model(JsonReader& reader, const std::string& path) {
  if (!reader.raw("model").is_string()) {
    ModelGraph model = model_from_json(reader.object("model"), folder_of(path));
    check_trains(model, reader, "model/layers");
    return model;
  }
  const ModelPath named = split((std::filesystem::path(folder_of(path)) / reader.text("model")).string());
  const Json json = parse_json_file(named.file);
  if (is_hugging_face_config(json)) return read_config(json, named).model;
  JsonReader inner(json, named.file);
  ModelGraph model = model_from_json(inner, folder_of(named.file));
  check_trains(model, inner, "layers");
  return model;
}

void read_data(JsonReader reader, Workload& w) {
  w.dataset = reader.text("set");
  if (reader.has("metric")) w.metric = reader.one_of("metric", {"loss", "accuracy", "perplexity"});
  w.epochs = reader.integer_or("epochs", w.dataset == "synthetic" ? 0 : 1, 0, kMaxEpochs);
  if (w.dataset == "synthetic" && w.epochs > 0) reader.fail("epochs", "one random batch has no epochs", "leave it out");
  if (w.dataset != "synthetic" && w.epochs == 0) reader.fail("epochs", "is 0", "must be at least 1");
  if (w.dataset != "synthetic" && !learns_classes(w.model))
    reader.fail("set", "data sets have classes, the model ends in " + kind_name(w.model.layers.back().kind),
                "end it in CrossEntropyLoss, or leave data out: one random batch then");
  if (w.metric != "loss" && !learns_classes(w.model))
    reader.fail("metric", w.metric + " needs classes, the model ends in " + kind_name(w.model.layers.back().kind),
                "use loss, or end the model in CrossEntropyLoss");
  reader.no_other_keys("known: set, metric, epochs");
}

WorkloadOptimizer read_optimizer(JsonReader reader) {
  WorkloadOptimizer o;
  if (reader.has("kind")) o.name = reader.one_of("kind", {"sgd", "adam", "adamw"});
  o.lr = reader.number_or("learning_rate", o.lr, 0, kMaxNumber);
  o.momentum = reader.number_or("momentum", 0, 0, kMaxNumber);
  o.weight_decay = reader.number_or("weight_decay", 0, 0, kMaxNumber);
  if (o.name != "sgd" && o.momentum > 0) reader.fail("momentum", "belongs to sgd, not to " + o.name, "leave it out");
  reader.no_other_keys("known: kind, learning_rate, momentum, weight_decay");
  return o;
}

Workload workload_of_config(const Json& json, const ModelPath& path, const std::string& name) {
  constexpr std::int64_t kMaxTrained = 200'000'000;  // parameters that a CPU trains
  HuggingFaceModel read = read_config(json, path);
  Workload w{.name = name, .title = read.model.name, .task = {}, .file = path.file, .model = std::move(read.model)};
  const Shape& input = w.model.inputs.front().shape;
  w.title += input.size() == 1 ? ", sequence " + std::to_string(input[0]) : ", images of " + std::to_string(input[1]);
  w.microbatches = static_cast<int>(w.batch);
  w.optimizer = {.name = "adamw", .lr = 1e-4, .weight_decay = 0.01};
  w.runs_for_real = parameter_count(w.model) <= kMaxTrained;
  w.source = "a config.json of Hugging Face" + (read.left_out.empty() ? "" : "; not modelled: " + read.left_out);
  return w;
}

Workload workload_from_json(const Json& json, const std::string& path, const std::string& name) {
  JsonReader reader(json, path);
  Workload w;
  w.name = name;
  w.file = path;
  if (reader.text("schema") == kModelSchema) {
    w.model = model_from_json(reader, folder_of(path));
    check_trains(w.model, reader, "layers");
    w.title = w.model.name;
    w.source = "a file of " + std::string(kModelSchema);
    return w;
  }
  if (reader.text("schema") != kWorkloadSchema)
    reader.fail("schema", "is neither '" + std::string(kWorkloadSchema) + "' nor '" + kModelSchema + "'");
  w.model = read_model(reader, path);
  w.title = reader.text("title", w.model.name);
  w.task = reader.text("task", "");
  w.source = reader.text("source", "");
  if (reader.has("data")) read_data(reader.object("data"), w);
  w.metric_direction = w.metric == "accuracy" ? "up" : "down";
  w.batch = reader.integer_or<std::int64_t>("batch", w.batch, 1, kMaxSamples);
  w.microbatches = reader.integer_or("microbatches", w.microbatches, 1, kMaxCount);
  if (w.batch % w.microbatches != 0)
    reader.fail("microbatches",
                std::to_string(w.microbatches) + " micro-batches do not divide the batch of " + std::to_string(w.batch),
                "choose a batch that is a multiple");
  if (reader.has("optimizer")) w.optimizer = read_optimizer(reader.object("optimizer"));
  if (reader.has("precision")) reader.one_of("precision", {"fp32"});
  w.runs_for_real = reader.boolean("runs_for_real", true);
  if (reader.has("single_device_value")) w.single_device_value = reader.number("single_device_value", 0, kMaxNumber);
  if (reader.has("target")) w.target = reader.number("target", 0, kMaxNumber);
  if (w.target && w.epochs == 0)
    reader.fail("target", "is reached in epochs on a data set", "give data, or leave it out");
  reader.no_other_keys();
  return w;
}

}  // namespace

bool is_workload_file(const std::string& path) {
  std::error_code ignored;
  const ModelPath named = split(path);
  if (!std::filesystem::is_regular_file(named.file, ignored)) return false;
  const std::string text = read_text_file(named.file);
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos || text[start] != '{') return false;
  const Json json = parse_json_file(named.file);
  if (is_hugging_face_config(json)) return true;
  if (!named.length.empty()) return false;
  const Json* schema = json.find("schema");
  return schema && schema->is_string() &&
         (schema->get<std::string>().starts_with("sluice/model/") ||
          schema->get<std::string>().starts_with("sluice/workload/"));
}

Workload read_workload(const std::string& path, const std::string& name) {
  const ModelPath named = split(path);
  const Json json = parse_json_file(named.file);
  return is_hugging_face_config(json) ? workload_of_config(json, named, name) : workload_from_json(json, path, name);
}

Json to_json(const Workload& w) {
  Json json = {{"schema", kWorkloadSchema},
               {"title", w.title},
               {"task", w.task},
               {"source", w.source},
               {"model", to_json(w.model)},
               {"data", {{"set", w.dataset}, {"metric", w.metric}}},
               {"batch", w.batch},
               {"microbatches", w.microbatches},
               {"optimizer",
                {{"kind", w.optimizer.name},
                 {"learning_rate", w.optimizer.lr},
                 {"momentum", w.optimizer.momentum},
                 {"weight_decay", w.optimizer.weight_decay}}},
               {"precision", "fp32"},
               {"runs_for_real", w.runs_for_real}};
  if (w.epochs > 0) json["data"]["epochs"] = w.epochs;
  if (w.single_device_value) json["single_device_value"] = *w.single_device_value;
  if (w.target) json["target"] = *w.target;
  return json;
}

std::string file_text(const Workload& workload) {
  const Json json = to_json(workload);
  std::string members, layers, model;
  for (const auto& [key, value] : json.items())
    if (key != "model" && value != "") members += " " + Json(key).dump() + ": " + value.dump() + ",\n";
  const auto line = [](std::string& list, const std::string& indent, const std::string& text) {
    list += (list.empty() ? "" : ",\n") + indent + text;
  };
  for (const Json& layer : folded_layers(workload.model)) {
    if (!layer.contains("repeat")) {
      line(layers, "   ", layer.dump());
      continue;
    }
    std::string block, head = "{";
    for (const auto& [key, value] : layer.items())
      if (key != "layers") head += Json(key).dump() + ": " + value.dump() + ", ";
    for (const Json& inner : layer["layers"]) line(block, "     ", inner.dump());
    line(layers, "   ", head + "\"layers\": [\n" + block + "]}");
  }
  for (const auto& [key, value] : json["model"].items())
    if (key != "layers") model += "  " + Json(key).dump() + ": " + value.dump() + ",\n";
  return "{\n" + members + " \"model\": {\n" + model + "  \"layers\": [\n" + layers + "\n  ]\n }\n}\n";
}

}  // namespace sluice
