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

constexpr std::size_t kMaxRank = 8;
constexpr int kMaxLayers = 100'000;

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
  void text(const char* key, std::string Kind::*member) { size(key, member); }
  void bytes(const char* key, std::int64_t Kind::*member) { size(key, member); }
  void shape(const char* key, Shape Kind::*member) { size(key, member); }
  void shapes(const char* key, std::vector<Shape> Kind::*member) { size(key, member); }
  void counts(const char* key, std::vector<std::int64_t> Kind::*member, std::int64_t, std::int64_t) {
    size(key, member);
  }
  template <class Enum, std::size_t N>
  void choice(const char* key, Enum Kind::*member, const std::array<const char*, N>& names) {
    if (kind_.*member != usual_.*member) json_[key] = names[static_cast<std::size_t>(kind_.*member)];
  }

 private:
  const Kind& kind_;
  const Kind usual_{};
  Json& json_;
};

void require_rank(const JsonReader& json, const std::string& key, const Shape& shape, std::size_t least) {
  if (shape.size() < least || shape.size() > kMaxRank)
    json.fail(key, "has " + std::to_string(shape.size()) + " dimensions",
              "give the dimensions of one sample, " + std::to_string(least) + " to " + std::to_string(kMaxRank) +
                  " of them, without the batch's");
}

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
  void text(const char* key, std::string Kind::*member) {
    kind_.*member = json_.text(key);
    if ((kind_.*member).empty()) json_.fail(key, "is empty");
  }
  void bytes(const char* key, std::int64_t Kind::*member) {
    kind_.*member = json_.integer_or<std::int64_t>(key, 0, 0, kMaxTensorBytes / 8);
  }
  void shape(const char* key, Shape Kind::*member) {
    kind_.*member = json_.integers<std::int64_t>(key, 1, kMaxSize);
    require_rank(json_, key, kind_.*member, 1);
  }
  void shapes(const char* key, std::vector<Shape> Kind::*member) {
    if (!json_.has(key)) return;
    JsonReader list = json_.list(key);
    for (const std::string& index : list.keys()) {
      (kind_.*member).push_back(list.integers<std::int64_t>(index, 1, kMaxSize));
      require_rank(list, index, (kind_.*member).back(), 0);
    }
  }
  void counts(const char* key, std::vector<std::int64_t> Kind::*member, std::int64_t least, std::int64_t most) {
    if (json_.has(key)) kind_.*member = json_.integers<std::int64_t>(key, least, most);
  }
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

// Where the layer that comes next is: in the list of the model, or in a copy of a block that is repeated.
struct Place {
  int copy = -1;          // -1: in no block
  std::string index;      // "{i}" in names becomes it
  int block_input = -1;   // what "block_input" in a list of inputs stands for
  std::size_t first = 0;  // layer of the copy
  bool frozen = false;    // the block's layers with weights are
};
constexpr const char* kBlockInput = "block_input";

// `text` with the copy's number for every "{i}".
std::string expanded(std::string text, const Place& place) {
  constexpr std::string_view mark = "{i}";
  if (place.copy < 0) return text;
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + place.index.size()))
    text.replace(at, mark.size(), place.index);
  return text;
}

using Numbers = std::map<std::string, int>;  // of the layers, by name

// The layer that the text at `key` names.
int named_layer(JsonReader& reader, const std::string& key, const Place& place, const Numbers& numbers,
                const std::string& advice) {
  const std::string name = expanded(reader.text(key), place);
  if (place.copy >= 0 && name == kBlockInput) return place.block_input;
  const auto known = numbers.find(name);
  if (known == numbers.end()) reader.fail(key, "no layer '" + name + "' comes before this one", advice);
  return known->second;
}

// The numbers of what the layer that comes next reads.
std::vector<int> read_inputs(JsonReader& layer, const ModelGraph& model, const Place& place, const Numbers& numbers) {
  const int before = static_cast<int>(model.layers.size()), outer = static_cast<int>(model.inputs.size());
  // -1, the model's first input, for the first layer
  if (!layer.has("inputs"))
    return {place.copy >= 0 && model.layers.size() == place.first ? place.block_input : before - 1};
  std::vector<int> result;
  JsonReader list = layer.list("inputs");
  if (list.size() == 0) layer.fail("inputs", "is empty", "give what the layer reads, or leave it out");
  for (const std::string& index : list.keys()) {
    if (list.raw(index).is_string()) {
      result.push_back(named_layer(list, index, place, numbers,
                                   "list layers after the layers they read; -1, -2, ... are the model's inputs"));
      continue;
    }
    if (place.copy >= 0 && list.raw(index).is_number_integer() && list.raw(index).get<std::int64_t>() >= 0)
      list.fail(index, "a number is one layer, whichever copy reads it", "name the layer, or write \"block_input\"");
    result.push_back(list.integer(index, -outer, std::max(before - 1, -1)));
  }
  return result;
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
  require_rank(input, "shape", result.shape, 1);
  if (result.is_token_ids && result.shape.size() != 1)
    input.fail("shape", "token ids have one dimension", "give their number, e.g. [128]");
  input.no_other_keys();
  return result;
}

// Adds layers to a model, with all that their inputs, names and sizes have to be.
class LayerReader {
 public:
  LayerReader(ModelGraph& model, Sizes& sizes, std::string folder)
      : model_(model), sizes_(sizes), folder_(std::move(folder)), is_read_(model.inputs.size(), false) {}

  bool is_read(std::size_t input) const { return is_read_[input]; }

  void add(JsonReader& json, const Place& place) {
    const int number = static_cast<int>(model_.layers.size());
    if (number >= kMaxLayers)
      json.fail("name", "is a layer too many", "a model has at most " + std::to_string(kMaxLayers));
    LayerSpec layer{.name = expanded(json.text("name"), place),
                    .kind = read_kind(json),
                    .inputs = read_inputs(json, model_, place, numbers_)};
    layer.block = json.integer_or("block", -1, -1, kMaxCount);
    if (layer.block >= 0 && place.copy > 0) layer.block += place.copy;
    if (json.has("tied_to"))
      layer.tied_to = named_layer(json, "tied_to", place, numbers_, "name an earlier layer with such a weight");
    const bool has_weights = !parameters(untied(layer)).empty();
    layer.frozen = json.boolean("frozen", place.frozen && has_weights);
    if (layer.frozen && !has_weights)
      json.fail("frozen", "a layer of kind " + kind_name(layer.kind) + " has no weights", "leave frozen out");
    json.no_other_keys();
    if (layer.name.empty()) json.fail("name", "is empty", "give every layer a name of its own");
    if (place.copy >= 0 && layer.name == kBlockInput)
      json.fail("name", "stands for what the block reads", "give the layer another name");
    if (!numbers_.emplace(layer.name, number).second)
      json.fail("name", "another layer is called '" + layer.name + "'",
                place.copy < 0 ? "give every layer a name of its own"
                               : "write {i} in it, which becomes the number of the copy");
    std::vector<Shape> inputs;
    for (const int input : layer.inputs) {
      if (input < 0) is_read_[static_cast<std::size_t>(-1 - input)] = true;
      inputs.push_back(input < 0 ? model_.inputs[static_cast<std::size_t>(-1 - input)].shape
                                 : shapes_[static_cast<std::size_t>(input)]);
    }
    const std::string where = json.where("kind");
    if (auto* module = std::get_if<Module>(&layer.kind)) {
      module->folder = folder_;
      for (const Shape& buffer : module->buffers) sizes_.add(buffer, where);
      for (const std::int64_t bytes :
           {module->stash, module->stash_per_microbatch, module->weight_stash, module->weight_stash_per_microbatch})
        sizes_.add({bytes}, where);
    }
    try {
      shapes_.push_back(output_shape(layer, inputs));
    } catch (const InputError& e) {
      throw InputError(where, e.what());
    }
    for (const ParameterSpec& parameter : parameters(untied(layer))) sizes_.add(parameter.shape, where);
    sizes_.add(shapes_.back(), where);
    if (const auto* experts = std::get_if<Experts>(&layer.kind))  // what the experts keep
      sizes_.add({elements(shapes_.back()) / experts->features, experts->top_k, experts->hidden}, where);
    model_.layers.push_back(std::move(layer));
    if (model_.layers.back().tied_to >= 0)
      if (const std::string fault = tie_fault(model_, number); !fault.empty()) json.fail("tied_to", fault);
  }

  // {"repeat": copies, "first": number of the first, "input": what the first copy reads, "frozen": of all layers that
  // do not say it themselves, "layers": [...]}
  void add_copies(JsonReader& block) {
    const int copies = block.integer<int>("repeat", 1, kMaxLayers), first = block.integer_or("first", 0, 0, kMaxCount);
    Place place{.copy = 0, .index = {}, .block_input = static_cast<int>(model_.layers.size()) - 1};
    if (block.has("input")) place.block_input = read_block_input(block);
    place.frozen = block.boolean("frozen", false);
    for (; place.copy < copies; ++place.copy) {
      place.index = std::to_string(first + place.copy);
      place.first = model_.layers.size();
      std::vector<JsonReader> layers = block.objects("layers");
      if (layers.empty()) block.fail("layers", "must not be empty", "give the layers of one copy");
      for (JsonReader& layer : layers) {
        if (layer.has("repeat")) layer.fail("repeat", "is inside of another repeat", "write the inner block out");
        add(layer, place);
      }
      place.block_input = static_cast<int>(model_.layers.size()) - 1;
    }
    block.no_other_keys("known: repeat, first, input, frozen, layers");
  }

 private:
  int read_block_input(JsonReader& block) {
    if (block.raw("input").is_string())
      return named_layer(block, "input", {}, numbers_, "list the block after the layer that it reads");
    return block.integer("input", -static_cast<int>(model_.inputs.size()), -1);
  }

  ModelGraph& model_;
  Sizes& sizes_;
  std::string folder_;
  Numbers numbers_;
  std::vector<Shape> shapes_;
  std::vector<bool> is_read_;  // by input of the model
};

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
    if (l.frozen) layer["frozen"] = true;
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

ModelGraph model_from_json(JsonReader reader, const std::string& folder) {
  if (reader.text("schema") != kModelSchema)
    reader.fail("schema", "is not '" + std::string(kModelSchema) + "'", "other schemas are not known here");
  ModelGraph model{.name = reader.text("name"), .inputs = {}, .layers = {}};
  Sizes sizes;
  for (JsonReader& input : reader.objects("inputs")) {
    model.inputs.push_back(read_input(input));
    sizes.add(model.inputs.back().shape, input.where("shape"));
  }
  if (model.inputs.empty()) reader.fail("inputs", "must not be empty", R"(give e.g. [{"shape": [3, 224, 224]}])");
  LayerReader layers(model, sizes, folder);
  for (JsonReader& layer : reader.objects("layers")) {
    if (layer.has("repeat"))
      layers.add_copies(layer);
    else
      layers.add(layer, {});
  }
  const auto frozen = std::ranges::find_if(model.layers, &LayerSpec::frozen);
  if (frozen != model.layers.end() && std::ranges::none_of(model.layers, learns))
    reader.fail("layers", "every layer with weights is frozen, so that nothing is trained",
                "leave frozen out in one of them");
  if (model.layers.empty())
    reader.fail("layers", "must not be empty", "give the layers in the order in which they run");
  reader.no_other_keys();
  for (std::size_t i = 0; i < model.inputs.size(); ++i)
    if (!layers.is_read(i))
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
