#include "harness/model/model_json.h"

#include <algorithm>
#include <map>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/model/layer_fields.h"

namespace sluice {

namespace {

constexpr std::int64_t kMaxSize = 100'000'000;  // of one dimension
constexpr std::int64_t kMaxWindow = 10'000;
constexpr std::size_t kMaxRank = 8;

// Writes what is not as a default-made kind has it.
template <class Kind>
class Writer {
 public:
  Writer(const Kind& kind, Json& json) : kind_(kind), json_(json) {}
  template <class T>
  void size(const char* key, T Kind::*member) {
    if (kind_.*member != usual_.*member) json_[key] = kind_.*member;
  }
  template <class T>
  void window(const char* key, T Kind::*member) {
    size(key, member);
  }
  template <class T>
  void extent(const char* key, T Kind::*member) {
    size(key, member);
  }
  void number(const char* key, double Kind::*member, double, double) { size(key, member); }
  void flag(const char* key, bool Kind::*member) { size(key, member); }
  template <class Enum, std::size_t N>
  void choice(const char* key, Enum Kind::*member, const std::array<const char*, N>& names) {
    if (kind_.*member != usual_.*member) json_[key] = names[static_cast<std::size_t>(kind_.*member)];
  }

 private:
  const Kind& kind_;
  const Kind usual_{};
  Json& json_;
};

template <class Kind>
class Reader {
 public:
  Reader(Kind& kind, JsonReader& json) : kind_(kind), json_(json) {}
  void size(const char* key, std::int64_t Kind::*member) { count(key, member, 1, kMaxSize); }
  void window(const char* key, std::int64_t Kind::*member) { count(key, member, 1, kMaxWindow); }
  void extent(const char* key, std::int64_t Kind::*member) {
    kind_.*member = json_.integer_or<std::int64_t>(key, kind_.*member, 0, kMaxWindow);
  }
  void number(const char* key, double Kind::*member, double least, double most) {
    kind_.*member = json_.number_or(key, kind_.*member, least, most);
  }
  void flag(const char* key, bool Kind::*member) { kind_.*member = json_.boolean(key, kind_.*member); }
  template <class Enum, std::size_t N>
  void choice(const char* key, Enum Kind::*member, const std::array<const char*, N>& names) {
    if (!json_.has(key)) return;
    const std::string name = json_.text(key);
    const auto found = std::ranges::find(names, name);
    if (found == names.end())
      json_.fail(key, "unknown value '" + name + "'",
                 suggestion(name, std::vector<std::string>(names.begin(), names.end())));
    kind_.*member = static_cast<Enum>(found - names.begin());
  }

 private:
  void count(const char* key, std::int64_t Kind::*member, std::int64_t least, std::int64_t most) {
    if (kind_.*member != 0 && !json_.has(key)) return;
    kind_.*member = json_.integer<std::int64_t>(key, least, most);
  }
  Kind& kind_;
  JsonReader& json_;
};

LayerKind read_kind(JsonReader& layer) {
  const std::string wanted = layer.text("kind");
  std::vector<std::string> names;
  std::optional<LayerKind> result;
  for_every_kind([&]<class Kind>(KindTag<Kind> tag) {
    names.push_back(kind_name(Kind{}));
    if (names.back() != wanted) return;
    Kind kind{};
    Reader<Kind> reader(kind, layer);
    visit_fields(reader, tag);
    result = kind;
  });
  if (!result) layer.fail("kind", "unknown kind '" + wanted + "'", suggestion(wanted, names));
  return *result;
}

// The numbers of what the layer that comes next reads.
std::vector<int> read_inputs(JsonReader& layer, const ModelGraph& model, const std::map<std::string, int>& numbers) {
  const int before = static_cast<int>(model.layers.size()), outer = static_cast<int>(model.inputs.size());
  if (!layer.has("inputs")) return {before - 1};  // -1, the model's first input, for the first layer
  std::vector<int> result;
  JsonReader list = layer.list("inputs");
  if (list.size() == 0) layer.fail("inputs", "is empty", "give what the layer reads, or leave it out");
  for (const std::string& index : list.keys()) {
    if (!list.raw(index).is_string()) {
      result.push_back(list.integer(index, -outer, std::max(before - 1, -1)));
      continue;
    }
    const std::string name = list.text(index);
    const auto known = numbers.find(name);
    if (known == numbers.end())
      list.fail(index, "no layer '" + name + "' comes before this one",
                "list layers after the layers they read; -1, -2, ... are the model's inputs");
    result.push_back(known->second);
  }
  return result;
}

// The number of the layer whose weight the layer that comes next uses.
int read_tie(JsonReader& layer, const std::map<std::string, int>& numbers) {
  const std::string name = layer.text("tied_to");
  const auto known = numbers.find(name);
  if (known == numbers.end())
    layer.fail("tied_to", "no layer '" + name + "' comes before this one", "name an earlier layer with such a weight");
  return known->second;
}

double element_count(const Shape& shape) {
  double count = 1;
  for (const std::int64_t size : shape) count *= static_cast<double>(size);
  return count;
}

// Adds what a layer makes and holds up. Throws InputError where that is more than any machine has.
class Sizes {
 public:
  void add(const Shape& shape, const std::string& where) {
    constexpr double most = static_cast<double>(kMaxTensorBytes) / 8;  // of all tensors and weights, 8 bytes each
    sum_ += element_count(shape);
    if (sum_ > most)
      throw InputError(where, "a tensor of " + to_text(shape) + " makes the model larger than any machine",
                       "possible are tensors and weights of " + std::to_string(kMaxTensorBytes) + " bytes in all");
  }

 private:
  double sum_ = 0;
};

ModelInput read_input(JsonReader& input) {
  ModelInput result{input.integers<std::int64_t>("shape", 1, kMaxSize), input.boolean("token_ids", false)};
  if (result.shape.empty() || result.shape.size() > kMaxRank)
    input.fail("shape", "has " + std::to_string(result.shape.size()) + " dimensions",
               "give the dimensions of one sample, 1 to " + std::to_string(kMaxRank) + " of them, without the batch's");
  if (result.is_token_ids && result.shape.size() != 1)
    input.fail("shape", "token ids have one dimension", "give their number, e.g. [128]");
  input.no_other_keys();
  return result;
}

}  // namespace

Json to_json(const ModelGraph& model) {
  Json inputs = Json::array(), layers = Json::array();
  for (const ModelInput& i : model.inputs) {
    inputs.push_back({{"shape", i.shape}});
    if (i.is_token_ids) inputs.back()["token_ids"] = true;
  }
  for (const LayerSpec& l : model.layers) {
    Json layer = {{"name", l.name}, {"kind", kind_name(l.kind)}};
    if (l.inputs != std::vector<int>{static_cast<int>(layers.size()) - 1}) layer["inputs"] = l.inputs;
    if (l.block != -1) layer["block"] = l.block;
    if (l.tied_to != -1) layer["tied_to"] = model.layers[l.tied_to].name;
    std::visit(
        [&]<class Kind>(const Kind& kind) {
          Writer<Kind> writer(kind, layer);
          visit_fields(writer, KindTag<Kind>{});
        },
        l.kind);
    layers.push_back(std::move(layer));
  }
  return {{"schema", kModelSchema}, {"name", model.name}, {"inputs", inputs}, {"layers", layers}};
}

ModelGraph model_from_json(JsonReader reader) {
  if (reader.text("schema") != kModelSchema)
    reader.fail("schema", "is not '" + std::string(kModelSchema) + "'", "other schemas are not known here");
  ModelGraph model{.name = reader.text("name"), .inputs = {}, .layers = {}};
  Sizes sizes;
  for (JsonReader& input : reader.objects("inputs")) {
    model.inputs.push_back(read_input(input));
    sizes.add(model.inputs.back().shape, input.where("shape"));
  }
  if (model.inputs.empty()) reader.fail("inputs", "must not be empty", R"(give e.g. [{"shape": [3, 224, 224]}])");
  std::map<std::string, int> numbers;
  std::vector<Shape> shapes;
  std::vector<JsonReader> layers = reader.objects("layers");
  std::vector<bool> is_read(model.inputs.size(), false);
  for (JsonReader& l : layers) {
    LayerSpec layer{.name = l.text("name"), .kind = read_kind(l), .inputs = read_inputs(l, model, numbers)};
    layer.block = l.integer_or("block", -1, -1, kMaxCount);
    if (l.has("tied_to")) layer.tied_to = read_tie(l, numbers);
    l.no_other_keys();
    if (layer.name.empty()) l.fail("name", "is empty", "give every layer a name of its own");
    if (!numbers.emplace(layer.name, static_cast<int>(model.layers.size())).second)
      l.fail("name", "another layer is called '" + layer.name + "'", "give every layer a name of its own");
    std::vector<Shape> inputs;
    for (const int input : layer.inputs) {
      if (input < 0) is_read[static_cast<std::size_t>(-1 - input)] = true;
      inputs.push_back(input < 0 ? model.inputs[static_cast<std::size_t>(-1 - input)].shape
                                 : shapes[static_cast<std::size_t>(input)]);
    }
    const std::string where = l.where("kind");
    for (const ParameterSpec& parameter : parameters(untied(layer))) sizes.add(parameter.shape, where);
    try {
      shapes.push_back(output_shape(layer, inputs));
    } catch (const InputError& e) {
      throw InputError(where, e.what());
    }
    sizes.add(shapes.back(), where);
    model.layers.push_back(std::move(layer));
    if (model.layers.back().tied_to >= 0)
      if (const std::string fault = tie_fault(model, static_cast<int>(model.layers.size()) - 1); !fault.empty())
        l.fail("tied_to", fault);
  }
  if (model.layers.empty())
    reader.fail("layers", "must not be empty", "give the layers in the order in which they run");
  reader.no_other_keys();
  for (std::size_t i = 0; i < is_read.size(); ++i)
    if (!is_read[i])
      reader.fail("inputs/" + std::to_string(i), "no layer reads it",
                  "remove it, or read it as " + std::to_string(-1 - int(i)));
  try {
    model.shapes();
  } catch (const InputError& e) {
    throw InputError(reader.where("layers"), e.what());
  }
  return model;
}

}  // namespace sluice
