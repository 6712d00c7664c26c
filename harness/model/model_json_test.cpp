#include "harness/model/model_json.h"

#include <gtest/gtest.h>
#include <sluice_build.h>

#include <fstream>

#include "harness/base/expect_error.h"
#include "harness/base/json.h"
#include "harness/base/json_reader.h"
#include "harness/model/fold_layers.h"
#include "harness/model/layer_fields.h"

namespace sluice {
namespace {

ModelGraph read(const Json& json) { return model_from_json(JsonReader(json, "m.json")); }

// A model of two layers, to be changed.
Json small() {
  return {{"schema", "sluice/model/1"},
          {"name", "small"},
          {"inputs", Json::array({{{"shape", Json::array({4})}}})},
          {"layers", Json::array({{{"name", "linear"}, {"kind", "Linear"}, {"in", 4}, {"out", 2}},
                                  {{"name", "loss"}, {"kind", "MseLoss"}}})}};
}

Json with(const std::string& pointer, const Json& value) {
  Json json = small();
  at_pointer(json, pointer) = value;
  return json;
}

TEST(ModelJson, LeavesOutWhatIsAsUsual) {
  const ModelGraph model = read(small());
  EXPECT_EQ(model.layers[0].inputs, std::vector<int>{-1});
  EXPECT_EQ(model.layers[1].inputs, std::vector<int>{0});
  EXPECT_EQ(model.layers[0].block, -1);
  EXPECT_TRUE(std::get<Linear>(model.layers[0].kind).bias);
  EXPECT_EQ(to_json(model), small());
}

TEST(ModelJson, InputsAreNamesOrNumbers) {
  Json json = small();
  json["layers"] = Json::array({{{"name", "a"}, {"kind", "Linear"}, {"in", 4}, {"out", 4}},
                                {{"name", "b"}, {"kind", "Activation"}, {"function", "gelu"}},
                                {{"name", "sum"}, {"kind", "Add"}, {"inputs", Json::array({"a", 1, -1})}},
                                {{"name", "loss"}, {"kind", "MseLoss"}}});
  EXPECT_EQ(read(json).layers[2].inputs, (std::vector<int>{0, 1, -1}));
}

TEST(ModelJson, MistakesNameTheirPlace) {
  const auto error = [](const std::string& pointer, const Json& value) {
    return error_of([&] { read(with(pointer, value)); });
  };
  EXPECT_EQ(error("/layers/0/kind", "Linaer"), "m.json: /layers/0/kind: unknown kind 'Linaer'; did you mean 'Linear'?");
  EXPECT_EQ(error("/layers/0/out", 0), "m.json: /layers/0/out: is 0; must be at least 1");
  EXPECT_NE(error("/layers/0/uot", 3).find("/layers/0/uot: unknown key"), std::string::npos);
  EXPECT_EQ(error("/layers/0/in", 5),
            "m.json: /layers/0/kind: layer 'linear' (Linear): expects a last dimension of 5, the input is [4]");
  EXPECT_EQ(error("/layers/1/inputs", Json::array({"lienar"})),
            "m.json: /layers/1/inputs/0: no layer 'lienar' comes before this one; list layers after the layers they "
            "read; -1, -2, ... are the model's inputs");
  EXPECT_EQ(error("/layers/1/inputs", Json::array({1})),
            "m.json: /layers/1/inputs/0: 1 is too large; must be at most 0");
  EXPECT_EQ(error("/layers/1/name", "linear"),
            "m.json: /layers/1/name: another layer is called 'linear'; give every layer a name of its own");
  EXPECT_EQ(error("/schema", "sluice/model/9"),
            "m.json: /schema: is not 'sluice/model/1'; other schemas are not known here");
  EXPECT_EQ(error("/inputs", Json::array()),
            "m.json: /inputs: must not be empty; give e.g. [{\"shape\": [3, 224, 224]}]");
  EXPECT_EQ(error("/inputs/1", {{"shape", Json::array({4})}}),
            "m.json: /inputs/1: no layer reads it; remove it, or read it as -2");
  EXPECT_EQ(error("/inputs/0/token_ids", true),
            "m.json: /layers: model 'small', layer 'linear': input 0 cannot be token ids; an Embedding reads them");
}

TEST(ModelJson, ExpertsAreReadAndWritten) {
  Json json = small();
  json["layers"][0] = {{"name", "experts"}, {"kind", "Experts"}, {"features", 4}, {"hidden", 6}, {"experts", 3}};
  const ModelGraph usual = read(json);
  const auto& k = std::get<Experts>(usual.layers[0].kind);
  EXPECT_EQ(k.top_k, 2);
  EXPECT_TRUE(k.gated);
  EXPECT_EQ(k.activation, Activation::Kind::silu);
  EXPECT_EQ(k.capacity, 0);
  EXPECT_EQ(to_json(usual), json);
  Json& layer = json["layers"][0];
  layer["top_k"] = 3, layer["gated"] = false, layer["function"] = "relu", layer["capacity"] = 1.25;
  EXPECT_EQ(to_json(read(json)), json);
  layer["top_k"] = 4;
  EXPECT_EQ(error_of([&] { read(json); }),
            "m.json: /layers/0/kind: layer 'experts' (Experts): top_k 4 is not between 1 and its 3 experts");
  layer["top_k"] = 0;
  EXPECT_EQ(error_of([&] { read(json); }), "m.json: /layers/0/top_k: is 0; must be at least 1");
}

TEST(ModelJson, ModelsBeyondAnyMachineAreRejected) {
  Json json = small();
  json["inputs"] = Json::array({{{"shape", Json::array({100'000'000, 100'000'000})}}});
  EXPECT_NE(error_of([&] { read(json); }).find("larger than any machine"), std::string::npos);
  json["inputs"] = Json::array({{{"shape", Json::array({100'000'000})}}});
  json["layers"][0]["in"] = 100'000'000;
  json["layers"][0]["out"] = 100'000'000;
  EXPECT_NE(error_of([&] { read(json); }).find("larger than any machine"), std::string::npos);
  // Rows of the experts that are chosen.
  json["inputs"] = Json::array({{{"shape", Json::array({100'000'000, 4})}}});
  json["layers"][0] = {{"name", "linear"}, {"kind", "Experts"},    {"features", 4},
                       {"hidden", 100},    {"experts", 1'000'000}, {"top_k", 100'000}};
  EXPECT_NE(error_of([&] { read(json); }).find("a tensor of [100000000, 100000, 100] makes the model larger than any"),
            std::string::npos);
}

// A kind's object in JSON Schema, from its fields.
template <class Kind>
class SchemaOf {
 public:
  SchemaOf() : properties_(Json::object()), required_(Json::array({"name", "kind"})) {
    properties_["name"] = {{"$ref", "#/$defs/name"}};
    properties_["kind"] = {{"const", kind_name(Kind{})}};
    properties_["inputs"] = {{"$ref", "#/$defs/inputs"}};
    properties_["block"] = {{"$ref", "#/$defs/block"}};
    if (std::is_same_v<Kind, Linear> || std::is_same_v<Kind, Embedding>)
      properties_["tied_to"] = {{"$ref", "#/$defs/tied_to"}};
    if (!parameters({.name = "", .kind = Kind{}, .inputs = {}}).empty())
      properties_["frozen"] = {{"$ref", "#/$defs/frozen"}};
    visit_fields(*this, KindTag<Kind>{});
  }
  Json json() const { return {{"properties", properties_}, {"required", required_}, {"additionalProperties", false}}; }
  void size(const char* key, std::int64_t Kind::*member) { whole(key, member, 1); }
  void window(const char* key, std::int64_t Kind::*member) { whole(key, member, 1); }
  void extent(const char* key, std::int64_t Kind::*member) {
    properties_[key] = {{"type", "integer"}, {"minimum", 0}, {"default", Kind{}.*member}};
  }
  void number(const char* key, double Kind::*member, double least, double most) {
    properties_[key] = {{"type", "number"}, {"minimum", least}, {"maximum", most}, {"default", Kind{}.*member}};
  }
  void flag(const char* key, bool Kind::*member) {
    properties_[key] = {{"type", "boolean"}, {"default", Kind{}.*member}};
  }
  void text(const char* key, std::string Kind::*) {
    properties_[key] = {{"type", "string"}, {"minLength", 1}};
    required_.push_back(key);
  }
  void bytes(const char* key, std::int64_t Kind::*) {
    properties_[key] = {{"type", "integer"}, {"minimum", 0}, {"default", 0}};
  }
  void shape(const char* key, Shape Kind::*) {
    properties_[key] = sizes(1);
    properties_[key]["minItems"] = 1;
    required_.push_back(key);
  }
  void shapes(const char* key, std::vector<Shape> Kind::*) {
    properties_[key] = {{"type", "array"}, {"items", sizes(1)}};
  }
  void counts(const char* key, std::vector<std::int64_t> Kind::*, std::int64_t least, std::int64_t) {
    properties_[key] = sizes(least);
  }
  template <class Enum, std::size_t N>
  void choice(const char* key, Enum Kind::*member, const std::array<const char*, N>& names) {
    properties_[key] = {{"enum", std::vector<std::string>(names.begin(), names.end())},
                        {"default", names[static_cast<std::size_t>(Kind{}.*member)]}};
  }

 private:
  static Json sizes(std::int64_t least) {
    return {{"type", "array"}, {"items", {{"type", "integer"}, {"minimum", least}}}};
  }
  void whole(const char* key, std::int64_t Kind::*member, int least) {
    properties_[key] = {{"type", "integer"}, {"minimum", least}};
    if (Kind{}.*member == 0) {
      required_.push_back(key);
    } else {
      properties_[key]["default"] = Kind{}.*member;
    }
  }
  Json properties_, required_;
};

Json schema_of_models() {
  Json kinds = Json::array();
  for_every_kind([&]<class Kind>(KindTag<Kind>) { kinds.push_back(SchemaOf<Kind>().json()); });
  const Json count = {{"type", "integer"}, {"minimum", 1}};
  const Json input = {{"type", "object"},
                      {"properties",
                       {{"shape",
                         {{"description", "of one sample, without the batch"},
                          {"type", "array"},
                          {"items", count},
                          {"minItems", 1},
                          {"maxItems", 8}}},
                        {"token_ids", {{"type", "boolean"}, {"default", false}}}}},
                      {"required", Json::array({"shape"})},
                      {"additionalProperties", false}};
  return {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"$id", "https://sluice.invalid/harness/model/model.schema.json"},
      {"title", "sluice/model/1: the layers of a model, in an order in which they can run"},
      {"type", "object"},
      {"properties",
       {{"schema", {{"const", "sluice/model/1"}}},
        {"name", {{"type", "string"}}},
        {"inputs", {{"type", "array"}, {"minItems", 1}, {"items", input}}},
        {"layers",
         {{"type", "array"},
          {"minItems", 1},
          {"items", {{"oneOf", Json::array({{{"$ref", "#/$defs/layer"}}, {{"$ref", "#/$defs/block_of_layers"}}})}}}}}}},
      {"required", Json::array({"schema", "name", "inputs", "layers"})},
      {"additionalProperties", false},
      {"$defs",
       {{"layer", {{"type", "object"}, {"oneOf", kinds}}},
        {"block_of_layers",
         {{"description", "copies of some layers; {i} in a name becomes the number of the copy"},
          {"type", "object"},
          {"properties",
           {{"repeat", {{"type", "integer"}, {"minimum", 1}, {"maximum", 100'000}}},
            {"first",
             {{"description", "number of the first copy"}, {"type", "integer"}, {"minimum", 0}, {"default", 0}}},
            {"input",
             {{"description", "what block_input is in the first copy; absent: the layer before"},
              {"type", Json::array({"integer", "string"})}}},
            {"frozen",
             {{"description", "of all layers with weights that do not say it themselves"},
              {"type", "boolean"},
              {"default", false}}},
            {"layers", {{"type", "array"}, {"minItems", 1}, {"items", {{"$ref", "#/$defs/layer"}}}}}}},
          {"required", Json::array({"repeat", "layers"})},
          {"additionalProperties", false}}},
        {"name", {{"type", "string"}, {"minLength", 1}}},
        {"inputs",
         {{"description",
           "names or numbers of earlier layers; -1, -2, ... are the model's inputs; absent: the layer before"},
          {"type", "array"},
          {"minItems", 1},
          {"items", {{"type", Json::array({"integer", "string"})}}}}},
        {"block",
         {{"description", "layers of one block draw their initial weights from one generator; -1: its own"},
          {"type", "integer"},
          {"minimum", -1},
          {"default", -1}}},
        {"frozen",
         {{"description", "its weights stay as they are: no weight gradient, no optimizer state"},
          {"type", "boolean"},
          {"default", false}}},
        {"tied_to",
         {{"description", "the earlier Linear or Embedding whose weight, of the same shape, this layer uses"},
          {"type", "string"}}}}}};
}

// Ids through a table, and the same table as the output head: 5 words of width 3.
Json with_tied_head() {
  return {{"schema", "sluice/model/1"},
          {"name", "tied"},
          {"inputs", Json::array({{{"shape", Json::array({4})}, {"token_ids", true}}})},
          {"layers", Json::array({{{"name", "words"}, {"kind", "Embedding"}, {"vocabulary", 5}, {"width", 3}},
                                  {{"name", "head"}, {"kind", "Linear"}, {"in", 3}, {"out", 5}, {"tied_to", "words"}},
                                  {{"name", "loss"}, {"kind", "CrossEntropyLoss"}}})}};
}

TEST(ModelJson, ATiedLayerNamesTheOneWhoseWeightItUses) {
  const ModelGraph model = read(with_tied_head());
  EXPECT_EQ(model.layers[0].tied_to, -1);
  EXPECT_EQ(model.layers[1].tied_to, 0);
  EXPECT_EQ(to_json(model), with_tied_head());
  EXPECT_EQ(parameter_count(model), 5 * 3 + 5);  // the table once, and the head's bias
  EXPECT_EQ(parameter_count(untied(model)), 2 * 5 * 3 + 5);
}

TEST(ModelJson, MistakesInTiesNameBothLayers) {
  const auto error = [](const std::string& pointer, const Json& value) {
    Json json = with_tied_head();
    at_pointer(json, pointer) = value;
    return error_of([&] { read(json); });
  };
  EXPECT_EQ(error("/layers/1/tied_to", "wrods"),
            "m.json: /layers/1/tied_to: no layer 'wrods' comes before this one; name an earlier layer with such a "
            "weight");
  EXPECT_EQ(
      error("/layers/1/tied_to", "head"),
      "m.json: /layers/1/tied_to: no layer 'head' comes before this one; name an earlier layer with such a weight");
  EXPECT_EQ(error("/layers/1/out", 6),
            "m.json: /layers/1/tied_to: is tied to 'words', whose weight is [5, 3], and needs one of [6, 3]");
  EXPECT_EQ(
      error("/layers/2/tied_to", "words"),
      "m.json: /layers/2/tied_to: is tied to 'words', and 'loss' is a layer of kind CrossEntropyLoss; the weights "
      "of Linear and Embedding can be tied");
  Json chain = with_tied_head();
  chain["layers"] = Json::array({{{"name", "a"}, {"kind", "Embedding"}, {"vocabulary", 3}, {"width", 3}},
                                 {{"name", "b"}, {"kind", "Linear"}, {"in", 3}, {"out", 3}, {"tied_to", "a"}},
                                 {{"name", "c"}, {"kind", "Linear"}, {"in", 3}, {"out", 3}, {"tied_to", "b"}},
                                 {{"name", "loss"}, {"kind", "CrossEntropyLoss"}}});
  EXPECT_EQ(error_of([&] { read(chain); }),
            "m.json: /layers/2/tied_to: is tied to 'b', which is itself tied to 'a'; name that one");
}

// A frozen layer of 4 x 4 + 4 weights, and a trained head.
Json with_frozen() {
  return {{"schema", "sluice/model/1"},
          {"name", "frozen"},
          {"inputs", Json::array({{{"shape", Json::array({4})}}})},
          {"layers", Json::array({{{"name", "body"}, {"kind", "Linear"}, {"in", 4}, {"out", 4}, {"frozen", true}},
                                  {{"name", "relu"}, {"kind", "Activation"}},
                                  {{"name", "head"}, {"kind", "Linear"}, {"in", 4}, {"out", 2}},
                                  {{"name", "loss"}, {"kind", "CrossEntropyLoss"}}})}};
}

TEST(ModelJson, AFrozenLayerHasParametersAndTrainsNone) {
  const ModelGraph model = read(with_frozen());
  EXPECT_EQ(to_json(model), with_frozen());
  EXPECT_EQ(parameter_count(model), 4 * 4 + 4 + 4 * 2 + 2);
  EXPECT_EQ(trained_parameter_count(model.layers[0]), 0);
  EXPECT_EQ(trained_parameter_count(model.layers[2]), 4 * 2 + 2);
  EXPECT_FALSE(learns(model.layers[0]));
  EXPECT_TRUE(learns(model.layers[2]));
  EXPECT_EQ(without_gradient(model), (std::vector<bool>{true, true, false, false}));
}

TEST(ModelJson, ABlockIsFrozenExceptWhereALayerSaysOtherwise) {
  Json json = with_frozen();
  json["layers"][0] = {
      {"repeat", 2},
      {"frozen", true},
      {"layers", Json::array({{{"name", "body_{i}"}, {"kind", "Linear"}, {"in", 4}, {"out", 4}},
                              {{"name", "tanh_{i}"}, {"kind", "Activation"}, {"function", "tanh"}},
                              {{"name", "lora_{i}"}, {"kind", "Linear"}, {"in", 4}, {"out", 4}, {"frozen", false}}})}};
  const ModelGraph model = read(json);
  std::vector<bool> frozen;
  for (const LayerSpec& layer : model.layers) frozen.push_back(layer.frozen);
  EXPECT_EQ(frozen, (std::vector<bool>{true, false, false, true, false, false, false, false, false}));
  EXPECT_EQ(without_gradient(model)[1], true);
  EXPECT_EQ(without_gradient(model)[3], false);  // behind a layer that learns
}

TEST(ModelJson, MistakesInFrozenSayWhatIsPossible) {
  const auto error = [](const std::string& pointer, const Json& value) {
    Json json = with_frozen();
    at_pointer(json, pointer) = value;
    return error_of([&] { read(json); });
  };
  EXPECT_EQ(error("/layers/1/frozen", true),
            "m.json: /layers/1/frozen: a layer of kind Activation has no weights; leave frozen out");
  EXPECT_EQ(error("/layers/2/frozen", true),
            "m.json: /layers: every layer with weights is frozen, so that nothing is trained; leave frozen out in one "
            "of them");
  Json tied = with_tied_head();
  tied["layers"][0]["frozen"] = true;
  EXPECT_EQ(error_of([&] { read(tied); }),
            "m.json: /layers/1/tied_to: is tied to 'words', and one of the two is frozen; freeze both or none");
}

// Two residual blocks over 4 numbers: x + relu(linear(x)).
Json with_repeat() {
  return {{"schema", "sluice/model/1"},
          {"name", "residual"},
          {"inputs", Json::array({{{"shape", Json::array({4})}}})},
          {"layers",
           Json::array({{{"name", "stem"}, {"kind", "Linear"}, {"in", 4}, {"out", 4}},
                        {{"repeat", 2},
                         {"first", 7},
                         {"layers",
                          Json::array({{{"name", "linear{i}"}, {"kind", "Linear"}, {"in", 4}, {"out", 4}, {"block", 3}},
                                       {{"name", "relu{i}"}, {"kind", "Activation"}},
                                       {{"name", "sum{i}"},
                                        {"kind", "Add"},
                                        {"inputs", Json::array({"block_input", "relu{i}", "stem"})}}})}},
                        {{"name", "loss"}, {"kind", "MseLoss"}}})}};
}

TEST(ModelJson, RepeatStandsForCopiesOfItsLayers) {
  const ModelGraph model = read(with_repeat());
  ASSERT_EQ(model.layers.size(), 8u);
  std::vector<std::string> names;
  for (const LayerSpec& layer : model.layers) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"stem", "linear7", "relu7", "sum7", "linear8", "relu8", "sum8", "loss"}));
  EXPECT_EQ(model.layers[1].inputs, std::vector<int>{0});
  EXPECT_EQ(model.layers[3].inputs, (std::vector<int>{0, 2, 0}));
  EXPECT_EQ(model.layers[4].inputs, std::vector<int>{3});
  EXPECT_EQ(model.layers[6].inputs, (std::vector<int>{3, 5, 0}));
  EXPECT_EQ(model.layers[1].block, 3);
  EXPECT_EQ(model.layers[4].block, 4);
  EXPECT_EQ(model.layers[7].inputs, std::vector<int>{6});
}

TEST(ModelJson, TheFirstCopyReadsWhatInputNames) {
  Json json = with_repeat();
  json["layers"][1]["input"] = -1;
  const ModelGraph model = read(json);
  EXPECT_EQ(model.layers[1].inputs, std::vector<int>{-1});
  EXPECT_EQ(model.layers[3].inputs, (std::vector<int>{-1, 2, 0}));
  EXPECT_EQ(model.layers[4].inputs, std::vector<int>{3});
}

TEST(ModelJson, MistakesInRepeatsSayWhere) {
  const auto error = [](const std::string& pointer, const Json& value) {
    Json json = with_repeat();
    at_pointer(json, pointer) = value;
    return error_of([&] { read(json); });
  };
  EXPECT_EQ(error("/layers/1/layers/0/name", "linear"),
            "m.json: /layers/1/layers/0/name: another layer is called 'linear'; write {i} in it, which becomes the "
            "number of the copy");
  EXPECT_EQ(error("/layers/1/repeat", 0), "m.json: /layers/1/repeat: is 0; must be at least 1");
  EXPECT_NE(error("/layers/1/repeat", 99'999).find("a model has at most 100000"), std::string::npos);
  EXPECT_EQ(error("/layers/1/layers/2/inputs", Json::array({0})),
            "m.json: /layers/1/layers/2/inputs/0: a number is one layer, whichever copy reads it; name the layer, or "
            "write \"block_input\"");
  EXPECT_NE(error("/layers/1/layers/0/repeat", 2).find("is inside of another repeat"), std::string::npos);
  EXPECT_NE(error("/layers/1/layers", Json::array()).find("must not be empty"), std::string::npos);
  EXPECT_NE(error("/layers/1/input", "nothing").find("no layer 'nothing' comes before"), std::string::npos);
  EXPECT_NE(error("/layers/1/layers/0/name", "block_input").find("stands for what the block reads"), std::string::npos);
}

TEST(ModelJson, FoldedLayersAreTheSameModelInFewLines) {
  ModelGraph model{.name = "chain", .inputs = {{.shape = {4}}}, .layers = {}};
  for (int i = 1; i <= 5; ++i) {
    const int x = static_cast<int>(model.layers.size()) - 1;
    model.layers.push_back({"linear1_" + std::to_string(i), Linear{4, 4}, {x}, 10 + i});
    model.layers.push_back({"sum" + std::to_string(i), Add{}, {x, x + 1, -1}, 10 + i});
  }
  model.layers.push_back({"loss", MseLoss{}, {9}});
  Json json = to_json(model);
  json["layers"] = folded_layers(model);
  // The first copy reads the model's input, which no later one does: it stands by itself.
  ASSERT_EQ(json["layers"].size(), 4u) << json["layers"].dump(1);
  EXPECT_EQ(json["layers"][2]["repeat"], 4);
  EXPECT_EQ(json["layers"][2]["first"], 2);
  EXPECT_EQ(json["layers"][2]["layers"][1]["inputs"], Json::array({"block_input", "linear1_{i}", -1}));
  EXPECT_EQ(to_json(read(json)), to_json(model));
}

TEST(ModelJson, TheSchemaKnowsEveryKindAndField) {
  const std::string file = SLUICE_SOURCE_DIR "/harness/model/model.schema.json";
  const std::string made = testing::TempDir() + "/model.schema.json";
  std::ofstream(made) << schema_of_models().dump(1) << "\n";
  EXPECT_TRUE(parse_json_file(file) == schema_of_models()) << "copy " << made << " to " << file;
}

}  // namespace
}  // namespace sluice
