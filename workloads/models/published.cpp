#include "workloads/models/published.h"

#include <algorithm>
#include <numeric>

#include "harness/base/error.h"
#include "harness/model/training_work.h"
#include "workloads/models/models.h"

namespace sluice {

namespace {

using Sizes = std::map<std::string, std::int64_t>;

// Flattened as torchgpipe does it: the identity of a bottleneck is a layer of its own in front of it, and the addition
// holds the convolution and the norm of the shortcut.
std::vector<int> flattened_resnet(const ModelGraph& model) {
  std::vector<int> units;
  int unit = -1;
  for (const LayerSpec& layer : model.layers) {
    const bool shortcut = layer.name.find("_shortcut") != std::string::npos;
    const bool first_of_bottleneck = layer.name.starts_with("conv") && layer.name.ends_with("a");
    if (shortcut || is_loss(layer.kind)) {
      units.push_back(shortcut ? unit + 1 : unit);
      continue;
    }
    unit += first_of_bottleneck ? 2 : 1;
    units.push_back(unit);
  }
  return units;
}

// One unit a block of layers that share `block`, but the first and the last block, which belong to their neighbours.
std::vector<int> transformer_blocks(const ModelGraph& model) {
  std::vector<int> units;
  const int last = model.layers.back().block;
  for (const LayerSpec& layer : model.layers) units.push_back(std::min(std::max(layer.block - 1, 0), last - 2));
  return units;
}

PublishedModel published_gpt(const Sizes& s, double dropout) {
  ModelGraph graph = gpt("gpt", static_cast<int>(s.at("layers")), s.at("hidden"), s.at("heads"), s.at("sequence"),
                         s.at("vocabulary"), dropout);
  return {graph, transformer_blocks(graph)};
}

struct Family {
  const char* name;
  std::vector<std::string> sizes;
  PublishedModel (*make)(const Sizes&);
};

std::vector<int> one_unit_a_layer(const ModelGraph& model) {
  std::vector<int> units(model.layers.size());
  std::iota(units.begin(), units.end(), 0);
  return units;
}

const std::vector<Family>& families() {
  static const std::vector<std::string> transformer = {"layers", "hidden", "heads", "sequence", "vocabulary"};
  static const std::vector<Family> all = {
      {"resnet50",
       {},
       [](const Sizes&) {
         ModelGraph graph = resnet50();
         return PublishedModel{graph, flattened_resnet(graph)};
       }},
      {"resnet101",
       {},
       [](const Sizes&) {
         ModelGraph graph = resnet101();
         return PublishedModel{graph, flattened_resnet(graph)};
       }},
      {"vgg16",
       {},
       [](const Sizes&) {
         ModelGraph graph = vgg16(false);
         return PublishedModel{graph, one_unit_a_layer(graph)};
       }},
      {"amoebanet_d",
       {"layers", "filters"},
       [](const Sizes& s) {
         PublishedModel model;
         model.graph = amoebanet_d(static_cast<int>(s.at("layers")), s.at("filters"), 1000, &model.unit_of_layer);
         return model;
       }},
      {"gpt", transformer, [](const Sizes& s) { return published_gpt(s, 0); }},
      {"gpt_with_dropout", transformer, [](const Sizes& s) { return published_gpt(s, 0.1); }},
      {"bert", transformer,
       [](const Sizes& s) {
         ModelGraph graph = bert("bert", static_cast<int>(s.at("layers")), s.at("hidden"), s.at("heads"),
                                 s.at("sequence"), s.at("vocabulary"));
         return PublishedModel{graph, transformer_blocks(graph)};
       }},
      {"unet",
       {"convolutions", "channels"},
       [](const Sizes& s) {
         if (s.at("convolutions") < 2 || s.at("channels") % 2 != 0)
           throw InputError("unet", "needs at least 2 convolutions a cell and an even number of channels");
         PublishedModel model;
         model.graph = unet(static_cast<int>(s.at("convolutions")), s.at("channels"), &model.unit_of_layer);
         return model;
       }},
  };
  return all;
}

}  // namespace

PublishedModel published_model(const std::string& family, const Sizes& sizes, const std::string& where) {
  std::vector<std::string> names;
  for (const Family& known : families()) {
    names.emplace_back(known.name);
    if (known.name != family) continue;
    for (const std::string& size : known.sizes)
      if (!sizes.contains(size)) throw InputError(where, family + " needs its " + size);
    for (const auto& [size, value] : sizes) {
      if (std::ranges::find(known.sizes, size) == known.sizes.end())
        throw InputError(where, family + " has no size '" + size + "'", suggestion(size, known.sizes));
      const bool counts_layers = size == "layers" || size == "convolutions";
      if (value > (counts_layers ? 10'000 : 1'000'000)) throw InputError(where, size + " is too large");
    }
    PublishedModel model = known.make(sizes);
    model.units = model.unit_of_layer.back() + 1;
    model.parameters = parameter_count(model.graph);
    model.forward_flops = forward_flops(model.graph).value;
    return model;
  }
  throw InputError(where, "unknown family of models '" + family + "'", suggestion(family, names));
}

}  // namespace sluice
