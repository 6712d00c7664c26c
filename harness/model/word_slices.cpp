#include "harness/model/word_slices.h"

#include <algorithm>
#include <string>

#include "harness/base/error.h"

namespace sluice {

namespace {

class WordSlicer {
 public:
  WordSlicer(const ModelGraph& model, int slices) : model_(model), slices_(slices), shapes_(model.shapes()) {
    words_.degree = slices;
    words_.whole = words_.member = model;
    for (const LayerSpec& layer : model.layers)
      words_.layers.push_back({.parameters = std::vector<ParameterPart>(parameters(layer).size())});
  }

  TensorModel run() {
    divide_head();
    for (int l = 0; l < static_cast<int>(model_.layers.size()); ++l) {
      if (const LayerSpec& layer = model_.layers[l]; layer.tied_to >= 0)
        throw InputError("model '" + model_.name + "'",
                         "'" + layer.name + "' uses the weight of '" + model_.layers[layer.tied_to].name +
                             "', and words are divided in layers with weights of their own",
                         "leave tied_to out, or use another system");
      if (auto* table = std::get_if<Embedding>(&words_.member.layers[l].kind)) {
        table->vocabulary = slice_of(l, table->vocabulary, "rows");
        words_.layers[l] = {.rule = LayerSplit::Rule::rows, .parameters = {{0}}};
      }
    }
    for (int l = 0; l < static_cast<int>(model_.layers.size()); ++l) add_parts(l);
    return std::move(words_);
  }

 private:
  std::int64_t slice_of(int l, std::int64_t size, const char* what) const {
    if (size % slices_ != 0)
      throw InputError(
          "model '" + model_.name + "', layer '" + model_.layers[l].name + "'",
          std::to_string(size) + " " + what + " cannot be divided among " + std::to_string(slices_) + " ranks",
          "choose ranks that divide them, or pad them to a multiple");
    return size / slices_;
  }

  void divide_head() {
    const int loss = static_cast<int>(model_.layers.size()) - 1, head = model_.layers[loss].inputs.front();
    auto* linear = head < 0 ? nullptr : std::get_if<Linear>(&words_.member.layers[head].kind);
    const bool is_last = head == loss - 1;
    if (!std::holds_alternative<CrossEntropyLoss>(model_.layers[loss].kind) || !linear || !is_last)
      throw InputError("model '" + model_.name + "'",
                       "does not end with a linear layer and its cross entropy, so that there are no words to divide",
                       "use another system");
    const std::int64_t classes = linear->out;
    linear->out = slice_of(head, classes, "classes");
    words_.layers[head].rule = LayerSplit::Rule::outputs;
    for (ParameterPart& part : words_.layers[head].parameters) part.dimension = 0;
    words_.layers[loss] = {.rule = LayerSplit::Rule::classes,
                           .forward_sums = {elements(shapes_[head]) / classes * (slices_ + 1)}};
  }

  // The layer's slices, or the layer, and behind the slices of an embedding their sum.
  void add_parts(int l) {
    const bool divided = words_.layers[l].rule != LayerSplit::Rule::whole;
    words_.all.name = model_.name;
    words_.all.inputs = model_.inputs;
    words_.all.members = slices_;
    std::vector<LayerSpec>& all = words_.all.layers;
    words_.first_parts.push_back(static_cast<int>(all.size()));
    outputs_.push_back(words_.first_parts.back());
    for (int k = 0; k < (divided ? slices_ : 1); ++k) {
      LayerSpec& own = all.emplace_back(words_.member.layers[l]);
      words_.parts.push_back({l, k});
      if (divided) own.name += "/" + std::to_string(k);
      for (int& input : own.inputs)
        if (input >= 0) input = outputs_[input] + (words_.layers[input].rule == LayerSplit::Rule::outputs ? k : 0);
    }
    if (words_.layers[l].rule != LayerSplit::Rule::rows) return;
    LayerSpec sum{.name = model_.layers[l].name + "/sum", .kind = Add{}};
    for (int k = 0; k < slices_; ++k) sum.inputs.push_back(words_.first_parts.back() + k);
    outputs_.back() = static_cast<int>(all.size());
    words_.parts.push_back({-1, 0});
    all.push_back(std::move(sum));
  }

  const ModelGraph& model_;
  const int slices_;
  const std::vector<Shape> shapes_;
  TensorModel words_;
  std::vector<int> outputs_;  // by layer of the model: whose output in `all` its readers read, of slice 0
};

}  // namespace

TensorModel slice_words(const ModelGraph& model, int slices) { return WordSlicer(model, slices).run(); }

std::vector<int> word_slices(const TensorModel& words) {
  std::vector<int> slices;
  for (const auto& [layer, member] : words.parts)
    slices.push_back(layer >= 0 && words.layers[layer].rule != LayerSplit::Rule::whole ? member : -1);
  return slices;
}

}  // namespace sluice
